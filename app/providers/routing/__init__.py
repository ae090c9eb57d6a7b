"""Several model servers behind one model: aliases, retries, fallback, breakers, and limits of calls."""

from app.providers.routing.breaker import Breaker, BreakerPolicy
from app.providers.routing.limiter import Limiter, Limits
from app.providers.routing.model import RoutedModel
from app.providers.routing.retry import RetryBudget, RetryPolicy
from app.providers.routing.target import Target

__all__ = ["Breaker", "BreakerPolicy", "Limiter", "Limits", "RetryBudget", "RetryPolicy", "RoutedModel", "Target"]

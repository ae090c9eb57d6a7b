"""The addresses: each takes a body, hands it on, and sends what comes back."""

from app.web.routes import chat, conversations, health, runs, tools

ROUTES = [route for part in (chat, runs, conversations, tools, health) for route in part.router.routes]
"""All of them, those that are asked for most first."""

__all__ = ["ROUTES"]

"""The door: only here HTTP exists.

`application` makes the ASGI application around whatever its lifespan yields as `gateway`.
"""

from app.web.application import application
from app.web.dependencies import Gateway
from app.web.request_ids import RequestIdFilter

__all__ = ["Gateway", "RequestIdFilter", "application"]

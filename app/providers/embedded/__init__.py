"""A model that needs no server: what answers where none is configured."""

from app.providers.embedded.model import DemoModel

__all__ = ["DemoModel"]

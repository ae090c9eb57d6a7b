"""Servers of OpenAI-compatible chat completions: the model, and the pure parts that write and read its wire."""

from app.providers.openai.model import OpenAIModel

__all__ = ["OpenAIModel"]

"""Advisor Gateway: tool-calling chat over HTTP in front of any OpenAI-compatible model."""

__version__ = "0.1.0"

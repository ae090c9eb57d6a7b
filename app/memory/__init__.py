"""What a conversation remembers."""

from app.memory.chat_memory import ChatMemory
from app.memory.in_memory import InMemoryChatMemory
from app.memory.window import window

__all__ = ["ChatMemory", "InMemoryChatMemory", "window"]

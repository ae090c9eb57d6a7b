"""What a conversation remembers."""

from app.memory.chat_memory import ChatMemory, ConversationStore, can_be_id
from app.memory.errors import ConversationExists, ConversationNotFound, MemoryUnavailable, TurnNotFound
from app.memory.in_memory import InMemoryChatMemory
from app.memory.summarizing import Summarize, SummarizingMemory
from app.memory.turns import ConversationInfo, KeptConversation, Summary, Turn
from app.memory.window import Window, window

__all__ = [
    "ChatMemory",
    "ConversationExists",
    "ConversationInfo",
    "ConversationNotFound",
    "ConversationStore",
    "InMemoryChatMemory",
    "KeptConversation",
    "MemoryUnavailable",
    "Summarize",
    "SummarizingMemory",
    "Summary",
    "Turn",
    "TurnNotFound",
    "Window",
    "can_be_id",
    "window",
]

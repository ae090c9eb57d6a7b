"""Ask a client in either mode and keep what came: every behaviour of the chain is shown in both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.chat import Message
from app.client import ChatClient
from tests.support.chains import Asked, collect, request_of


async def ask(
    client: ChatClient,
    prompt: str | Sequence[Message] = "Hello",
    *,
    stream: bool,
    tool_calling: bool | None = None,
    conversation_id: str | None = None,
    **options: Any,
) -> Asked:
    """Run one request; its events are held to the invariant of the chain."""
    request = request_of(prompt, stream=stream, conversation_id=conversation_id, **options)
    return await collect(client.run(request, tool_calling=tool_calling))

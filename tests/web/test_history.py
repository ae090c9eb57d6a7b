"""Messages on the wire: what is told can be sent back, and is the same again."""

from __future__ import annotations

from pydantic import TypeAdapter

from app.chat import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, ToolResult, UserMessage
from app.web.history import history_of, wire_messages
from app.web.schemas import MessageForm


def test_what_is_told_of_messages_of_every_kind_can_be_sent_back() -> None:
    told: list[Message] = [
        SystemMessage("Be brief."),
        UserMessage("Where, and when?"),
        AssistantMessage("Let me see.", (ToolCall("1", "where", "{}"), ToolCall("2", "when", '{"a":1}')), "Hm."),
        ToolMessage((ToolResult("1", "where", "Here."), ToolResult("2", "when", "Now."))),
        AssistantMessage("Here and now."),
        AssistantMessage(refusal="No."),
        UserMessage("Thanks."),
    ]

    wire = wire_messages(told)

    assert [message["role"] for message in wire] == [
        *("system", "user", "assistant", "tool", "tool", "assistant", "assistant", "user")
    ]
    assert history_of(TypeAdapter(list[MessageForm]).validate_python(wire)) == tuple(told)

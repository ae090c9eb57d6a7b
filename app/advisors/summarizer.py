"""Summaries of conversations, made by the model that answers them."""

from __future__ import annotations

from collections.abc import Iterable

from app.chat import (
    AssistantMessage,
    ChatModel,
    ChatOptions,
    ConfigurationError,
    FinishReason,
    Message,
    ModelProtocolError,
    Prompt,
    SystemMessage,
    ToolMessage,
    UserMessage,
)

_TASK = (
    "Below is the older part of a conversation between a user and an assistant, which will soon be forgotten. Write a "
    "summary from which the assistant can go on: facts about the user, what was asked and answered, decisions, "
    "names, numbers, and what is still open. Write it in the language of the conversation, in plain sentences, "
    "without an introduction. It replaces the earlier summary, where there is one: keep what still matters of it."
)


class ModelSummarizer:
    """Asks a model for summaries.

    Attributes:
        model: the model, set when it is there.
    """

    def __init__(self) -> None:
        self.model: ChatModel | None = None

    async def __call__(self, summary: str | None, said: Iterable[Message]) -> str:
        """One text of the summary so far and of what was said since.

        Raises:
            ModelError: the model could not be asked, or its summary is empty or was cut.
            ConfigurationError: there is none.
        """
        if self.model is None:
            raise ConfigurationError("there is no model to make summaries")
        lines = [] if summary is None else [f"Earlier summary: {summary}"]
        text = "\n\n".join([*lines, *(line for message in said for line in _told(message))])
        response = await self.model.call(Prompt((SystemMessage(_TASK), UserMessage(text)), ChatOptions(tools=())))
        if response.finish_reason is not FinishReason.STOP or not response.content.strip():
            raise ModelProtocolError(f"there is no whole summary, but {response.finish_reason}")
        return response.content.strip()


def _told(message: Message) -> list[str]:
    match message:
        case UserMessage(content):
            return [f"User: {content}"]
        case AssistantMessage():
            calls = [f"Assistant calls {call.name} with {call.arguments}" for call in message.tool_calls]
            said = message.content or message.refusal
            return ([f"Assistant: {said}"] if said else []) + calls
        case ToolMessage():
            return [f"Result of {result.name}: {result.content}" for result in message.results]
        case _:
            return []

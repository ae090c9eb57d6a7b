"""From a valid body to a request for the chain: what a schema cannot say is checked here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.chat import ChatOptions, ChatRequest, Message, Prompt, SystemMessage, Tool, ToolNotFound, UserMessage
from app.client import ChatClient
from app.web.body import BodyInvalid, FieldError, Location
from app.web.history import history_of
from app.web.schemas import ChatBody, NamedToolChoice, Options

_UNSAID = Options()
"""What a body without options says of them."""


def chat_request(body: ChatBody, client: ChatClient, *, stream: bool, principal: str) -> ChatRequest:
    """The request that a body asks for. What it leaves open the client fills in.

    Args:
        body: what the caller sent.
        client: knows the tools and the model.
        stream: whether text is to come in pieces.
        principal: who asks.

    Raises:
        BodyInvalid: it does not fit: the history, a tool's name, the model's alias, a switch that is not the
            caller's.
    """
    if body.tool_calling and not client.tool_calling:
        raise _refusal(("tool_calling",), "is switched off by the operator and cannot be switched on; leave it out")
    if body.model is not None and body.model not in client.aliases:
        known = ", ".join(map(repr, client.aliases))
        raise _refusal(("model",), f"unknown model {body.model!r}; known: {known}")
    if body.background and body.on_disconnect == "cancel":
        raise _refusal(("on_disconnect",), "must not be 'cancel' with 'background': such a run has no reader to lose")
    prompt = Prompt(_messages(body), _options(body, client))
    request = ChatRequest(prompt, stream=stream, conversation_id=body.conversation_id, principal=principal)
    if prompt.options.forces_a_tool:
        _check_choice(client.completed(request).options)
    return request


def check_read(body: ChatBody) -> None:
    """See to it that a run whose answer is its events is not to go on in the background.

    Raises:
        BodyInvalid: it is.
    """
    if body.background:
        raise _refusal(("background",), "is for /chat; here 'on_disconnect': 'continue' lets the run go on")


def tools_named(names: Sequence[str] | None, client: ChatClient) -> tuple[Tool, ...] | None:
    """The tools of these names, None = the defaults.

    Raises:
        BodyInvalid: there is no such tool; the message lists those there are.
    """
    if names is None:
        return None
    try:
        return client.tools_named(names)
    except ToolNotFound as error:
        raise _refusal(("tools",), str(error)) from None


def _messages(body: ChatBody) -> tuple[Message, ...]:
    system = (SystemMessage(body.system),) if body.system and body.system.strip() else ()
    match body.message, body.messages:
        case str(text), None:
            return (*system, UserMessage(text))
        case None, [*forms]:
            return (*system, *history_of(forms))
        case _:
            raise _refusal((), "needs exactly one of 'message' and 'messages'")


def _options(body: ChatBody, client: ChatClient) -> ChatOptions:
    given = body.options or _UNSAID
    return ChatOptions(
        model=body.model,
        temperature=given.temperature,
        top_p=given.top_p,
        max_tokens=given.max_tokens,
        stop=(given.stop,) if isinstance(given.stop, str) else None if given.stop is None else tuple(given.stop),
        seed=given.seed,
        tool_choice=_choice(given),
        parallel_tool_calls=given.parallel_tool_calls,
        response_format=_response_format(given),
        tools=tools_named(body.tools, client),
        tool_context=body.tool_context,
    )


def _choice(given: Options) -> str | None:
    choice = given.tool_choice
    return choice.function.name if isinstance(choice, NamedToolChoice) else choice


def _response_format(given: Options) -> dict[str, Any] | None:
    form = given.response_format
    return None if form is None else form.model_dump(by_alias=True, exclude_unset=True)


def _check_choice(options: ChatOptions) -> None:
    choice = options.tool_choice
    offered = [tool.definition.name for tool in options.tools or ()]
    if choice not in offered and (choice != "required" or not offered):
        there = ", ".join(offered) or "none"
        raise _refusal(("options", "tool_choice"), f"{choice!r} needs a tool that is offered; offered: {there}")


def _refusal(location: Location, message: str) -> BodyInvalid:
    return BodyInvalid(FieldError(location, message))

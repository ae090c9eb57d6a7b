"""The gateway without HTTP: a model, its tools and its advisors, put together.

client = ChatClient(model, tools=[get_weather])
answer = await client.call("What is the weather in Paris?")
print(answer.content)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from app.advisors.registration import with_tool_loop, without_tool_loop
from app.advisors.tool_calling import ToolAdvisor, ToolCallingAdvisor
from app.chat import (
    Advisor,
    ChatEvents,
    ChatModel,
    ChatOptions,
    ChatRequest,
    ChatResponse,
    Completed,
    ConfigurationError,
    Message,
    Prompt,
    RoutingModel,
    SystemMessage,
    TargetState,
    Tool,
    ToolNotFound,
    UserMessage,
    chain,
    one_by_one,
)
from app.chat.messages import EMPTY
from app.tooling import ToolCallingManager, flatten_tools, is_tool, settled_tools


def _offered_by_default(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    return tuple(tool for tool in tools if tool.metadata.default)


def _default_tool_advisor() -> ToolAdvisor:
    return ToolCallingAdvisor(ToolCallingManager())


class ChatClient:
    """Puts a chain together once and sends requests down it. Holds no state of a request; safe to share.

    Args:
        model: answers prompts.
        advisors: habits around the model; one of them may own the tool loop.
        tools: functions marked with `@tool`, `Tool`s, toolset objects, providers asked anew at each request, and
            iterables of these. Those with `default=False` are offered only to a request that names them.
        options: defaults of every request, over the model's own.
        system: system text of every request that has none.
        tool_calling: whether the gateway runs the calls; False leaves them to the caller, for every request.
        tool_calling_advisor: makes the owner of the tool loop where `advisors` has none.

    Raises:
        ConfigurationError: two advisors own a tool loop, or the tools cannot work.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        advisors: Iterable[Advisor] = (),
        tools: Iterable[Any] = (),
        options: ChatOptions | None = None,
        system: str | None = None,
        tool_calling: bool = True,
        tool_calling_advisor: Callable[[], ToolAdvisor] | None = None,
    ) -> None:
        given = tuple(tools)
        if any(thing is None for thing in given):
            raise ConfigurationError("tools must not hold None")
        self._model = model
        self._advisors = tuple(advisors)
        self._tools = settled_tools(*given)
        self._constant_tools = flatten_tools(*self._tools) if all(map(is_tool, self._tools)) else None
        self._options = options or ChatOptions()
        self._defaults = self._options
        if self._constant_tools and self._options.tools is None:
            self._defaults = replace(self._options, tools=_offered_by_default(self._constant_tools))
        self._system = system
        self._tool_calling = tool_calling
        self._tool_calling_advisor = tool_calling_advisor
        looping = with_tool_loop(self._advisors, tool_calling_advisor or _default_tool_advisor)
        self._with_loop = chain(looping, model)
        self._without_loop = chain(without_tool_loop(looping), model)

    @property
    def model(self) -> ChatModel:
        """The model asked."""
        return self._model

    @property
    def aliases(self) -> tuple[str, ...]:
        """The names by which a request can choose a model, the default first."""
        return self._model.aliases if isinstance(self._model, RoutingModel) else (self._model.name,)

    @property
    def targets(self) -> tuple[TargetState, ...]:
        """The model servers behind the aliases as they are now; none where the model is not one of several."""
        return self._model.targets if isinstance(self._model, RoutingModel) else ()

    @property
    def tool_calling(self) -> bool:
        """Whether the gateway runs the calls unless a request says otherwise."""
        return self._tool_calling

    @property
    def tools(self) -> tuple[Tool, ...]:
        """All tools there are now, offered by default or not; providers are asked."""
        return flatten_tools(*self._tools) if self._constant_tools is None else self._constant_tools

    def tools_named(self, names: Iterable[str]) -> tuple[Tool, ...]:
        """The tools of these names, each once.

        Raises:
            ToolNotFound: there is no tool of a name; the message lists those there are.
        """
        known = {tool.definition.name: tool for tool in self.tools}
        wanted = dict.fromkeys(names)
        if unknown := [name for name in wanted if name not in known]:
            there = ", ".join(sorted(known)) or "none"
            raise ToolNotFound(f"unknown tool {', '.join(map(repr, unknown))}; there are: {there}")
        return tuple(known[name] for name in wanted)

    def copy(self, **changes: Any) -> ChatClient:
        """A client like this one with some constructor arguments changed."""
        arguments: dict[str, Any] = {
            "model": self._model,
            "advisors": self._advisors,
            "tools": self._tools,
            "options": self._options,
            "system": self._system,
            "tool_calling": self._tool_calling,
            "tool_calling_advisor": self._tool_calling_advisor,
            **changes,
        }
        return ChatClient(arguments.pop("model"), **arguments)

    def run(self, request: ChatRequest, *, tool_calling: bool | None = None, batched: bool = False) -> ChatEvents:
        """Send a request down the chain.

        Args:
            request: its options go over the client's, and those over the model's. Its `stream` says whether
                text comes in pieces.
            tool_calling: False leaves the tool calls to the caller; None = as the client is set.
            batched: whether deltas that came together may come as one `Deltas`.

        Returns:
            Events, the last of them `Completed`. Close the generator to stop the work.

        Raises:
            ConfigurationError: `tool_calling=True` where the client leaves the calls to the caller.
            GatewayError: while iterating: the run failed.
        """
        if tool_calling and not self._tool_calling:
            raise ConfigurationError("tool calling is switched off for this client; a request cannot switch it on")
        call_next = self._without_loop if tool_calling is False or not self._tool_calling else self._with_loop
        events = call_next(self.completed(request))
        return events if batched else one_by_one(events)

    def completed(self, request: ChatRequest) -> ChatRequest:
        """The request with what it leaves open filled in from the client and the model, as `run` sends it."""
        options = request.options.over(self._defaults)
        if options.tools is None and self._tools:  # some of which are asked for anew
            options = replace(options, tools=_offered_by_default(self.tools))
        options = options.over(self._model.default_options)
        messages = request.messages
        if self._system and not any(isinstance(message, SystemMessage) for message in messages):
            messages = (SystemMessage(self._system), *messages)
        return request.changed(prompt=Prompt(messages, options))

    async def call(
        self,
        prompt: str | Sequence[Message],
        *,
        system: str | None = None,
        tools: Iterable[Any] | None = None,
        conversation_id: str | None = None,
        tool_calling: bool | None = None,
        attributes: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> ChatResponse:
        """The answer to a text or to messages, whole.

        Args:
            prompt: a user's text, or messages.
            system: system text, before the messages.
            tools: what is offered instead of the client's tools: the same things as in the constructor, and
                names of the client's tools.
            conversation_id: under which id a memory advisor remembers the turn.
            tool_calling: see `run`.
            attributes: see `ChatRequest.attributes`.
            **options: see `ChatOptions`.

        Raises:
            GatewayError: the run failed.
        """
        request = self._request(
            prompt,
            system=system,
            tools=tools,
            conversation_id=conversation_id,
            attributes=attributes,
            options=ChatOptions(**options),
        )
        async with aclosing(self.run(request, tool_calling=tool_calling)) as events:
            async for event in events:
                if isinstance(event, Completed):
                    return event.response
        raise RuntimeError("an advisor ended the chain without Completed")

    def stream(
        self,
        prompt: str | Sequence[Message],
        *,
        system: str | None = None,
        tools: Iterable[Any] | None = None,
        conversation_id: str | None = None,
        tool_calling: bool | None = None,
        attributes: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> ChatEvents:
        """The answer as events, with the arguments of `call`. Close the generator to stop the work."""
        request = self._request(
            prompt,
            system=system,
            tools=tools,
            conversation_id=conversation_id,
            attributes=attributes,
            options=ChatOptions(**options),
        )
        return self.run(replace(request, stream=True), tool_calling=tool_calling)

    def _request(
        self,
        prompt: str | Sequence[Message],
        *,
        system: str | None,
        tools: Iterable[Any] | None,
        conversation_id: str | None,
        attributes: Mapping[str, Any] | None,
        options: ChatOptions,
    ) -> ChatRequest:
        messages = (UserMessage(prompt),) if isinstance(prompt, str) else tuple(prompt)
        if system is not None:
            messages = (SystemMessage(system), *messages)
        if tools is not None:
            offered = flatten_tools(
                *(self.tools_named([thing]) if isinstance(thing, str) else thing for thing in tools)
            )
            options = replace(options, tools=offered)
        return ChatRequest(Prompt(messages, options), conversation_id=conversation_id, attributes=attributes or EMPTY)

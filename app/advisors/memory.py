"""Memory in the chain: what was said before goes into the prompt, the turn goes into memory when it has ended.

Outside the tool loop (the default) a conversation remembers questions and answers only. Inside, each round's
prompt is put together from memory, and calls and results are remembered too; as only the outside of the loop
sees how a turn ends, `MemoryAdvisor.inside_loop` splits the advisor in two.

A turn is remembered when it has an answer: it ended for `stop`, `length`, `content_filter` or `return_direct`, with
some text or a refusal, and leaves no call to run. Anything else (calls for the caller, a limit, a failure, a
cancellation) leaves memory as it was. The turn is stored before `Completed` is passed on, so who has an answer can
rely on it being remembered, and a store that fails is an error of the run.

Reasoning is remembered inside the loop only: some servers want it back beside the calls it led to.

Differs from Spring AI:

1. Without a conversation id nothing is remembered, and it is no error (178).
2. A turn is stored whole at its end, not the question before the model is asked (179), nor round by round (180).
3. A caller who sends the history that is remembered along with the conversation id gets it neither into the
   prompt nor into memory twice (181).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import aclosing

from app.chat import (
    Advisor,
    AssistantMessage,
    BaseAdvisor,
    CallNext,
    ChatEvents,
    ChatRequest,
    ChatResponse,
    Completed,
    ConfigurationError,
    FinishReason,
    Message,
    ToolMessage,
    passes_deltas,
)
from app.memory import ChatMemory
from app.memory.conversation import Conversation, other_messages, system_messages
from app.memory.pairing import paired
from app.memory.turns import Messages

_ANSWERED = frozenset({FinishReason.STOP, FinishReason.LENGTH, FinishReason.CONTENT_FILTER, FinishReason.RETURN_DIRECT})


class _TurnKeeper:
    """Keeps all that a turn grew by, calls and results included; stands just outside of the loop."""

    def __init__(self, memory: ChatMemory, order: int) -> None:
        self._memory = memory
        self.order = order

    @passes_deltas
    def advise(self, request: ChatRequest, call_next: CallNext) -> ChatEvents:
        """Recall, call on, keep. See `Advisor.advise`."""
        if request.conversation_id is None:
            return call_next(request)
        return self._remember(request.conversation_id, request, call_next)

    async def _remember(self, conversation_id: str, request: ChatRequest, call_next: CallNext) -> ChatEvents:
        conversation = Conversation(await self._memory.get(conversation_id))
        recalled = request.with_messages(self._prompt(conversation, request))
        async with aclosing(call_next(recalled)) as events:
            async for event in events:
                if isinstance(event, Completed) and _is_answer(event.response):
                    await self._memory.append(conversation_id, self._turn(conversation, request, event.response))
                yield event

    def _prompt(self, conversation: Conversation, request: ChatRequest) -> Messages:
        return request.messages

    def _turn(self, conversation: Conversation, request: ChatRequest, response: ChatResponse) -> Messages:
        # The answer as it is passed on, which an advisor below may have changed after the loop noted it.
        grown = (*response.generated[:-1], response.message)
        return paired((*conversation.new_of(request.messages), *grown))


class _TurnRecaller(BaseAdvisor):
    """Puts memory and the turn so far into each round's prompt; stands inside of the loop."""

    def __init__(self, memory: ChatMemory, order: int) -> None:
        super().__init__(order)
        self._memory = memory

    async def before(self, request: ChatRequest) -> ChatRequest:
        """See `BaseAdvisor.before`."""
        turn = (*system_messages(request.messages), *other_messages(request.turn or request.messages))
        if request.conversation_id is not None:
            turn = Conversation(await self._memory.get(request.conversation_id)).before(turn)
        return request.with_messages(turn)


class MemoryAdvisor(_TurnKeeper):
    """Remembers conversations by the `conversation_id` of their requests; requests without one pass untouched.

    The prompt becomes the request's system messages (memory's where it has none), what is remembered, then the
    request's other messages.

    Args:
        memory: where conversations are kept.
        order: below the tool loop's (outside) or above it (inside); `ChatClient` sees which, and puts the
            parts of `inside_loop` in its place.
    """

    DEFAULT_ORDER = 200

    def __init__(self, memory: ChatMemory, order: int = DEFAULT_ORDER) -> None:
        super().__init__(memory, order)

    def inside_loop(self, loop_order: int) -> tuple[Advisor, Advisor]:
        """The two advisors that do this one's work inside a tool loop whose own history is off.

        Messages that other advisors add within the loop must be added after (by a higher order): each round's
        messages come from `request.turn`; only system messages are taken from the prompt.

        Args:
            loop_order: the order of the loop.

        Returns:
            One that keeps turns, of the loop's order and to be registered before it, and one that recalls, of
            this advisor's order.
        """
        return _TurnKeeper(self._memory, loop_order), _TurnRecaller(self._memory, self.order)

    @passes_deltas
    def advise(self, request: ChatRequest, call_next: CallNext) -> ChatEvents:
        """Recall, call on, keep. See `Advisor.advise`.

        Raises:
            ConfigurationError: it stands inside a tool loop, where it sees rounds and not turns.
        """
        if request.turn:
            raise ConfigurationError(
                "a MemoryAdvisor inside the tool loop sees single rounds: let ChatClient put the chain together, "
                "or register both parts of MemoryAdvisor.inside_loop()"
            )
        return super().advise(request, call_next)

    def _prompt(self, conversation: Conversation, request: ChatRequest) -> Messages:
        return conversation.before(request.messages, _plain(request.messages))

    def _turn(self, conversation: Conversation, request: ChatRequest, response: ChatResponse) -> Messages:
        return (*conversation.new_of(_plain(request.messages)), _words_only(response.message))


def _is_answer(response: ChatResponse) -> bool:
    return response.finish_reason in _ANSWERED and not response.tool_calls and _says_something(response.message)


def _says_something(message: AssistantMessage) -> bool:
    # An empty assistant message is refused by some servers, and so would be every later turn.
    return bool(message.content.strip() or message.refusal)


def _words_only(message: AssistantMessage) -> AssistantMessage:
    return AssistantMessage(message.content, refusal=message.refusal)


def _plain(messages: Iterable[Message]) -> Messages:
    """Messages as questions and answers are remembered: without tool calls, results and empty answers."""
    kept: list[Message] = []
    for message in messages:
        match message:
            case ToolMessage():
                continue
            case AssistantMessage():
                if not message.tool_calls and _says_something(message):
                    kept.append(_words_only(message))
            case _:
                kept.append(message)
    return tuple(kept)

"""What an advisor owes its readers when it calls the chain more than once: no model call goes unseen.

An answer may itself be the work of several model calls, where an advisor below asks again, or of none.
"""

from __future__ import annotations

from app.chat import ChatRequest, ChatResponse, RoundCompleted


def last_round(request: ChatRequest, response: ChatResponse) -> int:
    """The number of the round that gave `response`, the answer to `request`."""
    return request.round + max(len(response.rounds) - 1, 0)


def swallowed(request: ChatRequest, response: ChatResponse) -> tuple[RoundCompleted, ...]:
    """What to yield in place of the `Completed` of an answer that is not the last.

    Args:
        request: the request it answered.
        response: the answer. Its rounds but the last have been told by whoever called for them.

    Returns:
        One event, or none where no model was called.
    """
    if not response.rounds:
        return ()
    last = response.rounds[-1]
    return (RoundCompleted(last_round(request, response), last.finish_reason, last.usage, last.target),)


def next_round(request: ChatRequest, response: ChatResponse) -> int:
    """The number of the round that follows those of `response`, the answer to `request` so far."""
    return request.round + len(response.rounds)


def continued(request: ChatRequest, response: ChatResponse) -> ChatRequest:
    """The request with its rounds counted on from those of `response`, the answer to it so far."""
    return request.changed(round=next_round(request, response))

"""An answer as the document that goes out: of `/chat`, and as the data of a stream's last event."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeAlias

from app.chat import ChatResponse, Round, RoundCompleted, ToolCall, ToolRun, Usage
from app.runs import Run, RunCancelled, RunCompleted, RunFailed, RunSummary
from app.web.errors import problem_of

Answer: TypeAlias = Callable[[ChatResponse], dict[str, Any]]
"""Makes the answer document of a run."""


def answer_document(response: ChatResponse, *, run_id: str, conversation_id: str | None, model: str) -> dict[str, Any]:
    """The answer with all its fields.

    Args:
        response: what the run gave.
        run_id: becomes the answer's `id`.
        conversation_id: under which id the turn is remembered.
        model: what the answer is labelled with where the model server told no name.
    """
    message = response.message
    return {
        "id": run_id,
        "conversation_id": conversation_id,
        "model": response.model or model,
        "content": message.content,
        "reasoning": message.reasoning,
        "refusal": message.refusal,
        "finish_reason": response.finish_reason.value,
        "tool_calls": [tool_call_document(call) for call in message.tool_calls],
        "tool_runs": [_tool_run(run) for run in response.tool_runs],
        "usage": usage_document(response.usage),
        "rounds": [round_document(one) for one in response.rounds],
    }


def run_summary(run: RunSummary) -> dict[str, Any]:
    """What a list says of a run."""
    return {
        "id": run.id,
        "status": run.status,
        "conversation_id": run.conversation_id,
        "created_at": time_text(run.created_at),
        "ended_at": time_text(run.ended_at) if run.ended_at else None,
    }


def run_document(run: Run, answer: Answer) -> dict[str, Any]:
    """How far a run is, with its answer or its problem when it has ended.

    Args:
        run: the run.
        answer: makes its answer document.
    """
    outcome: dict[str, Any] = {"answer": None, "problem": None}
    match run.end:
        case RunCompleted(response) | RunCancelled(response):
            outcome["answer"] = answer(response)
        case RunFailed(error):
            outcome["problem"] = problem_of(error, run.request_id).document()
    return run_summary(run) | outcome


def round_document(one: Round | RoundCompleted) -> dict[str, Any]:
    """How a model call ended, with the target that served it where that has a name."""
    target = {} if one.target is None else {"target": one.target}
    return {"finish_reason": one.finish_reason.value, "usage": usage_document(one.usage), **target}


def usage_document(usage: Usage) -> dict[str, int | None]:
    """Tokens, null where unknown."""
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "cached_tokens": usage.cached_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }


def time_text(moment: datetime) -> str:
    """A moment in UTC, to the millisecond."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def milliseconds(ms: float) -> float:
    """A time to the tenth: what is behind it is noise."""
    return round(ms, 1)


def tool_call_document(call: ToolCall) -> dict[str, Any]:
    """A call that the model asks for."""
    extra = {"extra": dict(call.extra)} if call.extra else {}
    return {"id": call.id, "name": call.name, "arguments": call.arguments, **extra}


def _tool_run(run: ToolRun) -> dict[str, Any]:
    outcome = {"result": run.result} if run.error is None else {"error": run.error}
    return {
        "round": run.round,
        "id": run.id,
        "name": run.name,
        "arguments": run.arguments,
        **outcome,
        "ms": milliseconds(run.ms),
    }

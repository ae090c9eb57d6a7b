"""What routes are given: the application's state, and the body of their request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, TypeAlias, TypeVar

from fastapi import Depends, Request
from pydantic import BaseModel

from app.client import ChatClient
from app.memory import ConversationStore
from app.runs import Run, Runs
from app.tooling import ToolCallingManager
from app.web.body import read_json, validated
from app.web.parameters import ConversationsUnknown
from app.web.schemas import ChatBody, ForkBody, ToolCallsBody

OWNER = "owner"
"""Who all callers are, until they are told apart."""

T = TypeVar("T", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Gateway:
    """All that routes work with; made when the application starts, and gone when it stops.

    Attributes:
        client: drives chains, knows the tools and the model.
        runs: the runs that are going.
        conversations: what is remembered, None where that cannot be looked at.
        manager: runs the tool calls of callers who drive the loop.
        max_body_bytes: how large a request's body may be.
        commit_after: seconds after which a stream begins though the model has said nothing.
        heartbeat: seconds of silence after which a stream carries a comment; None = never.
        drain_time: seconds that runs have to end when the server is told to stop.
        demo_note: how to configure a model, where the built-in demo answers.
    """

    client: ChatClient
    runs: Runs
    conversations: ConversationStore | None
    manager: ToolCallingManager
    max_body_bytes: int
    commit_after: float
    heartbeat: float | None
    drain_time: float
    demo_note: str | None = None


async def _gateway(request: Request) -> Gateway:
    gateway = request.scope.get("state", {}).get("gateway")
    if not isinstance(gateway, Gateway):
        raise TypeError(
            "there is no Gateway: the application's lifespan was not run, or does not yield one as `gateway`"
        )
    return gateway


CurrentGateway: TypeAlias = Annotated[Gateway, Depends(_gateway)]


async def _principal() -> str:
    return OWNER


Principal: TypeAlias = Annotated[str, Depends(_principal)]


async def _run(request: Request, gateway: CurrentGateway) -> Run:
    return await gateway.runs.get(request.path_params["run_id"])


NamedRun: TypeAlias = Annotated[Run, Depends(_run)]
"""The run that the address names. RunNotFound, RunGone: there is none."""


async def _conversations(gateway: CurrentGateway) -> ConversationStore:
    if gateway.conversations is None:
        raise ConversationsUnknown("this gateway keeps no conversations that can be looked at")
    return gateway.conversations


Conversations: TypeAlias = Annotated[ConversationStore, Depends(_conversations)]


def _body(schema: type[T]) -> Callable[[Request, Gateway], Awaitable[T]]:
    async def read(request: Request, gateway: CurrentGateway) -> T:
        return validated(schema, await read_json(request, limit=gateway.max_body_bytes))

    return read


Chat: TypeAlias = Annotated[ChatBody, Depends(_body(ChatBody))]
Fork: TypeAlias = Annotated[ForkBody, Depends(_body(ForkBody))]
ToolCalls: TypeAlias = Annotated[ToolCallsBody, Depends(_body(ToolCallsBody))]

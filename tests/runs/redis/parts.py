"""What a replica is made of, piece by piece, and a connection at which others can be quicker."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, ParamSpec

from app.chat import AssistantMessage, ChatEvents, ChatResponse, Completed
from app.runs import LocalRun, SharedStateUnavailable
from app.runs.redis.connection import Connection
from app.runs.redis.journal import RedisJournal
from app.runs.redis.lines import Lines
from app.runs.redis.records import Record, Records
from app.runs.redis.replicas import Replicas
from app.runs.run import new_run_id
from tests.support.gates import PATIENCE

P = ParamSpec("P")

Happening = Callable[[], Awaitable[Any]]


class Meddled(Connection):
    """A connection to a real Redis at which something happens just before a question is asked.

    Attributes:
        is_cut: whether nothing is answered.
        asked: how often each kind of question was.
    """

    def __init__(self, url: str, prefix: str = "gateway:") -> None:
        super().__init__(url, prefix)
        self.is_cut = False
        self.asked: Counter[str] = Counter()
        self._coming: dict[str, Happening] = {}

    def before(self, question: str, happening: Happening) -> None:
        """Let something happen before the next question of a kind: the name of a command, `execute`, or `script`."""
        self._coming[question] = happening

    async def ask(self, question: Callable[P, Awaitable[Any]], *args: P.args, **kwargs: P.kwargs) -> Any:
        """See `Connection.ask`."""
        kind = getattr(question, "__name__", "script")
        self.asked[kind] += 1
        if self.is_cut:
            raise SharedStateUnavailable("the line is cut")
        happening = self._coming.pop(kind, None)
        if happening is not None:
            await happening()
        return await super().ask(question, *args, **kwargs)


async def unanswered() -> None:
    """Happens where a question is not answered."""
    raise SharedStateUnavailable("no answer")


@dataclass
class Said:
    """What a replica was asked to do.

    Attributes:
        heard: what others told it.
        backs: how often it was back.
        buried: whom it was to bury.
    """

    heard: list[tuple[str, str]] = field(default_factory=list)
    backs: int = 0
    buried: list[str] = field(default_factory=list)

    async def hear(self, verb: str, run_id: str) -> None:
        """Take what another one says."""
        self.heard.append((verb, run_id))

    def back(self) -> None:
        """Be back."""
        self.backs += 1

    async def bury(self, replica: str) -> None:
        """See to what another one left behind."""
        self.buried.append(replica)

    async def tick(self) -> None:
        """Nothing is done again and again."""


class Parts:
    """A replica that does nothing by itself.

    Attributes:
        connection: to Redis.
        said: what it was asked to do.
        records: of runs.
        replicas: it among the others.
        mine: its runs.
        lines: of conversations.
    """

    def __init__(self, connection: Connection, *, keep: float = 600, lease: float = 10) -> None:
        self.connection = connection
        self.said = Said()
        self.records = Records(connection, keep)
        self.replicas = Replicas(
            connection, lease, hear=self.said.hear, back=self.said.back, bury=self.said.bury, tick=self.said.tick
        )
        self.mine: dict[str, LocalRun] = {}
        self.lines = Lines(connection, self.records, self.replicas, self.mine)
        self.work: list[asyncio.Task[None]] = []

    @property
    def id(self) -> str:
        """The replica's."""
        return self.replicas.id

    def do(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do work in the background."""
        self.work.append(asyncio.create_task(work))
        return self.work[-1]

    async def is_here(self) -> None:
        """Let others know that it is there."""
        await self.connection.redis.set(self.connection.key("replica", self.id), "here")

    async def known(self, conversation_id: str | None = None, run_id: str | None = None) -> str:
        """A run of this replica that Redis was told of. Returns its id."""
        run = LocalRun(_nothing(), run_id=run_id or new_run_id(), conversation_id=conversation_id)
        pipeline = self.connection.redis.pipeline(transaction=True)
        pipeline.sadd(self.replicas.runs_of(self.id), run.id)
        self.records.add(pipeline, run, self.id, None)
        await pipeline.execute()
        return run.id

    async def record(self, run_id: str) -> Record:
        """What is written down of a run that is there."""
        record = await self.records.find(run_id)
        assert record is not None
        return record

    async def runs(self) -> set[str]:
        """The runs that Redis has for this replica."""
        found: Any = await self.connection.redis.smembers(self.replicas.runs_of(self.id))
        return {name.decode() for name in found}

    async def standing(self, conversation_id: str) -> list[str]:
        """Who stands in the line of a conversation."""
        line = self.connection.key("conversation", conversation_id, "line")
        found: Any = await self.connection.redis.lrange(line, 0, -1)
        return [name.decode() for name in found]

    async def told(self) -> list[tuple[str, str]]:
        """What others have told this replica."""
        said: Any = await self.connection.redis.xrange(self.connection.key("replica", self.id, "said"))
        return [(fields[b"verb"].decode(), fields[b"run"].decode()) for _, fields in said]

    def journal(self, run_id: str) -> RedisJournal:
        """The events of a run."""
        return RedisJournal(self.connection, self.records.events(run_id))


async def _nothing() -> ChatEvents:
    yield Completed(ChatResponse(AssistantMessage("Hi")))


async def so(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if condition():
                return
            await asyncio.sleep(0)

"""What the profile "scale" takes: memory, connections and processor time for streams, runs and turns.

    .ci/scale-test .venv/bin/python -m benchmarks.sizing

Numbers come from the engine, from /proc inside of the containers, from Redis and from PostgreSQL. Each step begins when
the one before is at rest. Processor time is what was used, so that a machine that is busy with other things tells the
same.
"""

from __future__ import annotations

import asyncio
import os
import sys
import uuid
from dataclasses import dataclass

from tests.scale.caller import Caller, Script
from tests.scale.stack import Container, Stack, docker

STREAMS = 200
TURNS = 5
_KIB = 1024
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Sizing:
    """The containers, and what is measured of them.

    Attributes:
        stack: which are up.
        one: a replica.
        other: the other one.
        redis: what they share of runs.
        postgres: what they share of conversations.
        proxy: what is before them.
    """

    stack: Stack
    one: Container
    other: Container
    redis: Container
    postgres: Container
    proxy: Container

    @classmethod
    async def of(cls, stack: Stack) -> Sizing:
        """The containers of a stack, once they are well."""
        await stack.settled()
        others = [await stack.container(name) for name in ("redis", "postgres", "proxy")]
        return cls(stack, *await stack.replicas(), *others)

    async def measure(self) -> None:
        """Measure, and print what was found."""
        await _hear([Caller(self.stack.proxy, Script(words=5)) for _ in range(20)])  # what is made once is there
        memory = await _resident(self.one) / _KIB, await _redis_memory(self.redis) / _KIB**2
        print(f"at rest: a replica {memory[0]:.0f} MiB, Redis {memory[1]:.1f} MiB; ", end="")
        print(f"connections: {await _clients(self.redis)} to Redis, {await _backends(self.postgres)} to PostgreSQL")
        await self._streams()
        await self._followers()
        await self._proxied()
        await self._turns()

    async def _streams(self) -> None:
        memory, file = await _redis_memory(self.redis), await _file_size(self.redis)
        print(f"{STREAMS} streams of a replica's own runs:")
        runs = [Caller(self.one.url, script) for script in _scripts()]
        events = await self._watched(runs, self.one)
        grown = await _redis_memory(self.redis) - memory, await _file_size(self.redis) - file
        print(f"    a run of {events // STREAMS} events is {grown[0] / STREAMS / _KIB:.0f} KiB in Redis, ", end="")
        print(f"{grown[0] / events:.0f} bytes an event, and {grown[1] / STREAMS / _KIB:.0f} KiB of its file")

    async def _followers(self) -> None:
        begun = [Caller(self.one.url, script) for script in _scripts()]
        for caller in begun:
            await caller.begin()
        print(f"{STREAMS} streams of the other replica's runs:")
        await self._watched(
            [Caller(self.other.url, caller.script, location=caller.location) for caller in begun], self.other
        )

    async def _proxied(self) -> None:
        print(f"{STREAMS} streams through the proxy:")
        await self._watched([Caller(self.stack.proxy, script) for script in _scripts()], self.proxy)

    async def _watched(self, callers: list[Caller], container: Container) -> int:
        """Hear what callers are told, and print what it takes. Returns how many events there were."""
        watched = (container, self.redis)
        idle, before = await _resident(container), [await _used(one) for one in watched]
        async with asyncio.TaskGroup() as group:
            for caller in callers:
                group.create_task(caller.hear())
            for caller in callers:
                await caller.has(100)
            each = (await _resident(container) - idle) / len(callers)
            clients = await _clients(self.redis)
        for caller in callers:
            caller.assert_whole()
        events = sum(len(caller.heard) for caller in callers)
        used = [1e6 * (await _used(one) - then) / events for one, then in zip(watched, before, strict=True)]
        print(f"    {each:.0f} KiB for each; {used[0]:.0f} us an event, and {used[1]:.0f} us of Redis; ", end="")
        print(f"{clients} connections to Redis")
        return events

    async def _turns(self) -> None:
        size, most = await _database_size(self.postgres), 0
        names = [uuid.uuid4().hex for _ in range(STREAMS)]
        for _ in range(TURNS):
            asked = [Caller(self.stack.proxy, Script(words=100, pace=0), conversation_id=name) for name in names]
            hearing = asyncio.create_task(_hear(asked))
            while not hearing.done():
                most = max(most, await _backends(self.postgres))
            await hearing
        grown = (await _database_size(self.postgres) - size) / STREAMS / TURNS / _KIB
        print(f"{STREAMS * TURNS} turns of 100 words, {STREAMS} at a time:")
        print(f"    {grown:.1f} KiB each in PostgreSQL; {most} connections to it at most, for two replicas")


def _scripts() -> list[Script]:
    return [Script(words=200, pace=0.2) for _ in range(STREAMS)]


async def _hear(callers: list[Caller]) -> None:
    async with asyncio.TaskGroup() as group:
        for caller in callers:
            group.create_task(caller.hear())


async def _resident(container: Container) -> int:
    """KiB that are resident, of all processes in a container."""
    statuses = await docker("exec", container.id, "sh", "-c", "cat /proc/[0-9]*/status 2>/dev/null || true")
    return sum(int(line.split()[1]) for line in statuses.splitlines() if line.startswith("VmRSS"))


async def _used(container: Container) -> float:
    """Seconds of processor time that the processes of a container have used."""
    stats = await docker("exec", container.id, "sh", "-c", "cat /proc/[0-9]*/stat 2>/dev/null || true")
    return sum(map(_seconds, stats.splitlines()))


def _seconds(stat: str) -> float:
    name, _, rest = stat.partition(" (")[2].rpartition(") ")
    user, system = rest.split()[11:13]
    return (int(user) + int(system)) / _TICKS if name not in {"cat", "sh"} else 0.0


async def _redis_cli(redis: Container, *words: str) -> str:
    asking = 'REDISCLI_AUTH=$(cat /run/secrets/redis_password) exec valkey-cli "$@"'
    return await docker("exec", redis.id, "sh", "-c", asking, "sh", *words)


async def _told_by_redis(redis: Container, section: str, field: str) -> int:
    info = dict(line.split(":", 1) for line in (await _redis_cli(redis, "info", section)).splitlines() if ":" in line)
    return int(info[field])


async def _redis_memory(redis: Container) -> int:
    return await _told_by_redis(redis, "memory", "used_memory")


async def _file_size(redis: Container) -> int:
    return await _told_by_redis(redis, "persistence", "aof_current_size")


async def _clients(redis: Container) -> int:
    return await _told_by_redis(redis, "clients", "connected_clients") - 1


async def _sql(postgres: Container, statement: str) -> int:
    asking = ["psql", "--username=gateway", "--dbname=gateway", "--tuples-only", "--no-align", "--command", statement]
    return int(await docker("exec", "--user=postgres", postgres.id, *asking))


async def _backends(postgres: Container) -> int:
    return await _sql(postgres, "select count(*) from pg_stat_activity where backend_type = 'client backend'") - 1


async def _database_size(postgres: Container) -> int:
    return await _sql(postgres, "select pg_database_size('gateway')")


async def _main(stack: Stack) -> None:
    await (await Sizing.of(stack)).measure()


if __name__ == "__main__":
    project, port = os.environ.get("COMPOSE_PROJECT_NAME"), os.environ.get("PROXY_PORT")
    if project is None or port is None:
        sys.exit("run by .ci/scale-test, which starts the containers")
    asyncio.run(_main(Stack(project, f"http://127.0.0.1:{port}")))

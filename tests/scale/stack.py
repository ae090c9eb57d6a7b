"""The containers of the compose file, as the tests see and treat them."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from tests.support.gateway_process import REPOSITORY

PATIENCE = 120.0
"""Seconds for anything that containers do on a machine that is busy with other things."""
PORT = "8000/tcp"


@dataclass(frozen=True, slots=True)
class Container:
    """A container as it was when it was looked at.

    Attributes:
        id: the whole of it.
        name: as the engine has it.
        details: what the engine says of it.
    """

    id: str
    name: str
    details: Any

    @property
    def is_healthy(self) -> bool:
        """Whether its health check says so."""
        return self.is_running and self.details["State"].get("Health", {}).get("Status") == "healthy"

    @property
    def is_running(self) -> bool:
        """Whether it is there."""
        return bool(self.details["State"]["Running"])

    @property
    def url(self) -> str:
        """Where it is reached past the proxy."""
        return f"http://127.0.0.1:{self.details['NetworkSettings']['Ports'][PORT][0]['HostPort']}"


class Stack:
    """The project that the environment names (`COMPOSE_PROJECT_NAME`, `COMPOSE_FILE`), which is up.

    Args:
        project: its name.
        proxy: the address of nginx.
    """

    def __init__(self, project: str, proxy: str) -> None:
        self.project = project
        self.proxy = proxy

    async def containers(self, service: str) -> list[Container]:
        """Those of a service, stopped ones too, the oldest first."""
        filters = {"project": self.project, "service": service, "oneoff": "False"}
        labels = [f"--filter=label=com.docker.compose.{name}={value}" for name, value in filters.items()]
        ids = (await docker("ps", "--all", "--quiet", "--no-trunc", *labels)).split()
        if not ids:
            return []
        found = [Container(one["Id"], one["Name"][1:], one) for one in json.loads(await docker("inspect", *ids))]
        return sorted(found, key=lambda one: str(one.details["Created"]))

    async def container(self, service: str) -> Container:
        """The one of a service that has only one."""
        (one,) = await self.containers(service)
        return one

    async def replicas(self) -> tuple[Container, Container]:
        """The two that serve."""
        one, other = [replica for replica in await self.containers("replica") if replica.is_healthy]
        return one, other

    async def settled(self) -> None:
        """Wait until all is well: two replicas, and what they need."""

        async def is_well() -> bool:
            services = [await self.containers(name) for name in ("redis", "postgres", "proxy", "model", "replica")]
            return all(one.is_healthy for service in services for one in service) and len(services[-1]) == 2

        await until(is_well, "all containers are healthy")

    @asynccontextmanager
    async def killed(self, *containers: Container) -> AsyncIterator[float]:
        """Containers that are killed at once, and started again at the end. Gives the time of it."""
        ids = [container.id for container in containers]
        await docker("kill", *ids)
        try:
            yield time.monotonic()
        finally:
            await docker("start", *ids)
            await self.settled()

    async def address(self, service: str) -> str:
        """Where the only container of a service is reached past the proxy."""
        return (await self.container(service)).url

    async def calls(self, name: str) -> dict[str, int]:
        """The calls that the model server had of a script."""
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
            counted: dict[str, int] = (await client.get(f"{await self.address('model')}/calls/{name}")).json()
            return counted


async def until(condition: Callable[[], Awaitable[bool]], what: str, timeout: float = PATIENCE) -> float:
    """Look again and again until something is so.

    Returns:
        Seconds that it took.
    """
    began = time.monotonic()
    while not await condition():
        if time.monotonic() - began > timeout:
            raise AssertionError(f"waited {timeout:.0f} s in vain until {what}")
        await asyncio.sleep(0.1)
    return time.monotonic() - began


async def logs(container: Container) -> str:
    """All that a container has written, on either output."""
    return await command("docker", "logs", container.id, errors_too=True)


async def docker(*arguments: str) -> str:
    """What `docker` writes.

    Raises:
        AssertionError: it failed; with what it says of it.
    """
    return await command("docker", *arguments)


async def command(*words: str, errors_too: bool = False) -> str:
    """What a command writes, in the project's folder; on standard error, too, where that is wanted.

    Raises:
        AssertionError: it failed; with what it says of it.
    """
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=REPOSITORY,
        env=os.environ,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT if errors_too else asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(3 * PATIENCE):
        output, errors = await process.communicate()
    if process.returncode != 0:
        raise AssertionError(
            f"{' '.join(words)} ended with {process.returncode}: {(errors or output).decode()[-2000:]}"
        )
    return output.decode()

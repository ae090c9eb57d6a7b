"""The stack that is up, whole again before each test, and a way to say what was seen."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from tests.scale.stack import PATIENCE, Stack

Tell = Callable[[str], None]


@pytest.fixture
async def stack() -> Stack:
    """The containers that `.ci/scale-test` has started."""
    project = os.environ.get("COMPOSE_PROJECT_NAME")
    if project is None or "PROXY_PORT" not in os.environ:
        pytest.fail("run by .ci/scale-test, which starts the containers")
    found = Stack(project, f"http://127.0.0.1:{os.environ['PROXY_PORT']}")
    await found.settled()
    return found


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    """Asks whomever; it looks at no proxy settings."""
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as one:
        yield one


@pytest.fixture
def tell(capsys: pytest.CaptureFixture[str]) -> Tell:
    """Writes a line to where the steps of the test are written."""

    def write(line: str) -> None:
        with capsys.disabled():
            print(f"\nscale:     {line}", end="", flush=True)  # noqa: T201 - it is what the run is for

    return write

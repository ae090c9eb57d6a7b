"""Chromium, without a window, before one page of ours."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.telling import Event

HERE = Path(__file__).parent
NAMES = ("chromium", "google-chrome")
PATIENCE = 60.0
"""Seconds after which a browser gives up what it waits for, and says what that was."""


class Act(NamedTuple):
    """Something that is done to the page when it has so many events: `reload` it, or click on `cancel`."""

    after: int
    act: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What a page has seen.

    Attributes:
        events: all of them, in the order they came.
        opened: how many times a stream began.
        found: whether the conversation had a run already when the page was loaded.
        statuses: of the answers when a run's events were asked for; None = the line was cut before.
    """

    events: list[Event]
    opened: int
    found: bool
    statuses: list[int | None]


def executable() -> str:
    """Where the browser is. Skips the test where something is missing, but not in CI."""
    browser = next(filter(None, map(shutil.which, NAMES)), None)
    needed = {
        "Chromium (Debian: apt-get install chromium)": browser,
        "node": shutil.which("node"),
        "playwright-core (make browser installs it)": (HERE / "node_modules").is_dir(),
    }
    missing = "missing: " + ", ".join(name for name, is_there in needed.items() if not is_there)
    if all(needed.values()) and browser:
        return browser
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)


async def browse(url: str, *acts: Act) -> Seen:
    """Open a page, and stay until it has ended its reading.

    Raises:
        AssertionError: the page failed, or does not come to its end.
    """
    told = {"executable": executable(), "url": url, "acts": [act._asdict() for act in acts], "patience": PATIENCE}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        "node", HERE / "drive.mjs", json.dumps(told), stdout=pipe, stderr=pipe
    )
    try:
        output, errors = await process.communicate()
    except asyncio.CancelledError:
        process.terminate()  # it takes its browser along
        await process.communicate()
        raise
    assert process.returncode == 0, errors.decode()
    seen: dict[str, Any] = json.loads(output)
    events = [Event(**event) for event in seen["events"]]
    return Seen(events, seen["opened"], seen["found"], seen["statuses"])

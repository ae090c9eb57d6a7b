"""A browser follows runs over a line that is cut every second, and misses nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlencode

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from tests.browser.chromium import HERE, PATIENCE, Act, Seen, browse, executable
from tests.support.served import served
from tests.support.storyteller import AFTER, BEFORE
from tests.support.tally import Tally
from tests.support.telling import Telling, assert_in_order, telling, texts

pytestmark = [pytest.mark.browser, pytest.mark.server]


@pytest.fixture(autouse=True)
def _browser() -> None:
    """Nothing is started where there is none."""
    executable()


@dataclass(frozen=True, slots=True)
class Scene:
    """A page that has a story told.

    Attributes:
        told: the gateway and the model behind the page.
        page: its address.
        loads: of the page.
    """

    told: Telling
    page: str
    loads: Tally

    async def browse(self, *acts: Act, meanwhile: Callable[[], Awaitable[None]] | None = None, **asked: str) -> Seen:
        """Have the page opened and read to its end. `meanwhile` is done beside that."""
        query = urlencode({"gateway": self.told.line.url, "conversation": "c1", **asked})
        async with asyncio.timeout(2 * PATIENCE), asyncio.TaskGroup() as tasks:
            browsing = tasks.create_task(browse(f"{self.page}?{query}", *acts))
            if meanwhile is not None:
                await meanwhile()
        return browsing.result()


@asynccontextmanager
async def scene(*, same_origin: bool) -> AsyncIterator[Scene]:
    """The page comes over the bad line, from the gateway's origin, or from a server of its own."""
    loads = Tally()

    async def page(_: Request) -> Response:
        loads.add()
        return FileResponse(HERE / "page.html")

    pages = [Route("/", page)]
    if same_origin:
        async with telling(pages=pages) as told:
            yield Scene(told, told.line.url, loads)
    else:
        async with served(Starlette(routes=pages)) as (host, port):
            origin = f"http://{host}:{port}"
            async with telling(cors_origins=[origin]) as told:
                yield Scene(told, origin, loads)


def assert_stopped(seen: Seen) -> None:
    """The page has asked until it was told that there is no more, and then no more."""
    assert seen.statuses[-1] == 204
    assert {200} <= set(seen.statuses[:-1]) <= {200, None}


@pytest.mark.parametrize("same_origin", [True, False], ids=["same origin", "another origin"])
async def test_an_event_source_has_the_whole_answer_once_over_a_line_that_is_cut_every_second(
    same_origin: bool,
) -> None:
    async with scene(same_origin=same_origin) as played:
        seen = await played.browse(meanwhile=lambda: played.told.end_after_cuts(3))

        assert not seen.found
        assert seen.opened > 3
        assert_stopped(seen)
        await played.told.assert_told(seen.events)


async def test_a_run_in_the_background_is_followed_as_any_other() -> None:
    async with scene(same_origin=False) as played:
        seen = await played.browse(start="background", meanwhile=lambda: played.told.end_after_cuts(1))

        assert seen.opened > 1
        assert_stopped(seen)
        await played.told.assert_told(seen.events)


async def test_a_page_that_is_reloaded_in_mid_run_finds_it_and_has_it_from_the_start() -> None:
    async with scene(same_origin=True) as played:

        async def end_after_the_reload() -> None:
            await played.loads.more(2)
            await played.told.end_after_cuts(1)

        seen = await played.browse(Act(10, "reload"), meanwhile=end_after_the_reload)

        assert seen.found
        assert seen.opened > 1
        assert_stopped(seen)
        await played.told.assert_told(seen.events)


async def test_a_run_that_is_cancelled_from_the_page_ends_there_with_what_was_told() -> None:
    async with scene(same_origin=False) as played:
        seen = await played.browse(Act(35, "cancel"))

        run = await played.told.run()
        said_before, said_after = texts(seen.events)
        assert_in_order(seen.events)
        assert said_before == "".join(BEFORE)
        assert "".join(AFTER).startswith(said_after)
        assert seen.events[-1].name == "run.cancelled"
        assert_stopped(seen)
        assert json.loads(seen.events[-1].data)["content"] == run["answer"]["content"] == said_after
        assert run["answer"]["finish_reason"] == "cancelled"
        assert seen.events == await played.told.events(run["id"])
        async with asyncio.timeout(PATIENCE):
            await played.told.model.exchanges[-1].gone.wait()


async def test_a_page_that_reads_by_fetch_takes_up_the_stream_where_it_was_cut() -> None:
    async with scene(same_origin=False) as played:
        seen = await played.browse(read="fetch", meanwhile=lambda: played.told.end_after_cuts(3))

        assert seen.opened > 3
        assert_stopped(seen)
        await played.told.assert_told(seen.events)

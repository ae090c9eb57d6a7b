"""A run that is no longer kept frees its memory at once: what collects garbage counts objects, and no bytes."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from app.main import create_app
from app.providers.scripted import ScriptedModel, tool_calls
from app.settings import Settings
from tests.support.gates import PATIENCE
from tests.support.modes import both_modes
from tests.support.tools import Held
from tests.support.web import ENDPOINTS, opened

NOT_KEPT = Settings(runs={"max_kept": 0})


@pytest.fixture(autouse=True)
def _no_collections() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("leaves", [False, True], ids=["read whole", "left in a tool"])
@both_modes
async def test_a_forgotten_run_is_gone_without_a_collection_of_garbage(*, stream: bool, leaves: bool) -> None:
    held, gone = Held(), asyncio.Event()
    app = create_app(NOT_KEPT, model=ScriptedModel(tool_calls(("held", {})), "Done."), tools=[held.tool])

    async with opened(app) as (client, gateway):
        asking = asyncio.create_task(client.post(ENDPOINTS[stream], json={"message": "Hello"}))
        await held.begun()
        [listed] = await gateway.runs.page(1)
        run = await gateway.runs.get(listed.id)
        weakref.finalize(run.journal, gone.set)
        del listed, run
        if leaves:
            asking.cancel()
        else:
            held.let_go.set()
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([asking])
            await gone.wait()

    assert held.cancelled == leaves

"""Records and lists of runs in Redis: long ones, what is missing in them, and what is swept out."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from app.runs import SharedStateUnavailable
from app.runs.redis.records import Records
from app.runs.redis.remote_run import RemoteRun
from tests.runs.redis.journals import END, ended, words
from tests.runs.redis.parts import Meddled, Parts

pytestmark = pytest.mark.server

MANY = 130
"""More than are asked for at once."""


async def listed(records: Records, limit: int, conversation_id: str | None = None) -> list[str]:
    return [record.id for record in await records.page(limit, before=None, conversation_id=conversation_id)]


async def test_a_page_ends_where_it_is_full_however_many_more_there_are(here: Parts, meddled: Meddled) -> None:
    runs = [await here.known(run_id=f"run_{number:03}") for number in range(MANY)]

    assert await listed(here.records, 3) == runs[:-4:-1]
    assert meddled.asked["zrevrangebylex"] == 1
    assert await listed(here.records, 110) == runs[:-111:-1]
    assert await listed(here.records, 1000) == runs[::-1]


async def test_what_is_listed_and_not_written_down_is_struck_out(here: Parts, meddled: Meddled) -> None:
    for number in range(MANY):
        await here.known("c", run_id=f"run_{number:03}")
    for number in range(1, MANY):
        await meddled.redis.delete(meddled.key("run", f"run_{number:03}"))

    assert await listed(here.records, 2, "c") == ["run_000"]

    index = meddled.key("conversation", "c", "runs")
    assert await meddled.redis.zrange(index, 0, -1) == [b"run_000"]
    assert await meddled.redis.zcard(meddled.key("runs")) == MANY, "another list is put in order by its own readers"


async def test_runs_that_are_no_longer_kept_are_struck_from_all_lists(
    here: Parts, meddled: Meddled, monkeypatch: pytest.MonkeyPatch
) -> None:
    going = await here.known("c")
    for number in range(MANY):
        run_id = await here.known("c" if number % 2 else None)
        await here.records.end(await here.record(run_id), END, datetime.now(UTC))
    lists = [meddled.key("runs"), meddled.key("conversation", "c", "runs")]
    await here.records.sweep()
    assert [await meddled.redis.zcard(name) for name in lists] == [MANY + 1, MANY // 2 + 1]

    monkeypatch.setattr("app.runs.redis.records.time.time", lambda: datetime.now(UTC).timestamp() + 601)
    await here.records.sweep()

    assert [await meddled.redis.zrange(name, 0, -1) for name in lists] == [[going.encode()]] * 2
    assert await meddled.redis.zcard(meddled.key("ended")) == 0


@pytest.mark.parametrize("end", [2, 4])
async def test_an_answer_that_is_written_before_what_was_the_newest_event_is_found(
    here: Parts, meddled: Meddled, end: int
) -> None:
    run_id = await here.known()
    journal = here.journal(run_id)
    await journal.write(words(1, 5), behind=0)

    async def refused() -> None:
        raise SharedStateUnavailable("not needed")

    async def written_anew() -> None:
        await meddled.redis.delete(here.records.events(run_id))
        await journal.write([*words(1, end - 1), *ended(end)], behind=0)

    run = RemoteRun(await here.record(run_id), None, journal, enter=lambda: pytest.fail("entered"), cancel=refused)
    meddled.before("xrevrange", written_anew)

    assert (await run.result()).content == "done"

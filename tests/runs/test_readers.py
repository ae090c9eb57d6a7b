"""Readers: they come and go, and the last one to leave is noticed."""

from __future__ import annotations

from app.runs.readers import Readers
from tests.support.loop_time import LoopTime


class Noticed:
    """Counts how often a run was left alone."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


async def test_the_last_reader_to_leave_is_noticed_at_once() -> None:
    noticed = Noticed()
    readers = Readers(noticed)
    first, second = readers.enter(), readers.enter()

    first.leave()
    assert noticed.times == 0
    second.leave()

    assert noticed.times == 1


async def test_who_leaves_twice_leaves_once() -> None:
    noticed = Noticed()
    readers = Readers(noticed)
    leaving, staying = readers.enter(), readers.enter()

    leaving.leave()
    leaving.leave()
    assert noticed.times == 0
    staying.leave()
    staying.leave()

    assert noticed.times == 1


async def test_a_run_that_nobody_has_come_to_is_not_left() -> None:
    noticed = Noticed()
    Readers(noticed).close()

    assert noticed.times == 0


async def test_who_was_sent_away_counts_as_there_and_others_may_come_and_go() -> None:
    noticed = Noticed()
    readers = Readers(noticed)
    sent_away = readers.enter()

    sent_away.stay()
    sent_away.leave()
    readers.enter().leave()

    assert noticed.times == 0


async def test_who_has_left_cannot_stay() -> None:
    noticed = Noticed()
    reader = Readers(noticed).enter()

    reader.leave()
    reader.stay()

    assert noticed.times == 1


async def test_leaving_is_noticed_when_nobody_has_come_back_in_time(time: LoopTime) -> None:
    noticed = Noticed()
    readers = Readers(noticed, grace=10)

    readers.enter().leave()
    await time.passes(9)
    assert noticed.times == 0
    await time.passes(2)

    assert noticed.times == 1


async def test_who_comes_back_in_time_has_not_left_and_may_leave_later(time: LoopTime) -> None:
    noticed = Noticed()
    readers = Readers(noticed, grace=10)

    readers.enter().leave()
    await time.passes(9)
    back = readers.enter()
    await time.passes(100)
    assert noticed.times == 0
    back.leave()
    await time.passes(9)
    assert noticed.times == 0
    await time.passes(2)

    assert noticed.times == 1


async def test_the_time_to_come_back_begins_when_the_last_one_leaves(time: LoopTime) -> None:
    noticed = Noticed()
    readers = Readers(noticed, grace=10)
    first, last = readers.enter(), readers.enter()

    first.leave()
    await time.passes(100)
    last.leave()
    first.leave()
    await time.passes(9)

    assert noticed.times == 0


async def test_nothing_is_done_where_nothing_is_to_be_done() -> None:
    readers = Readers(None)

    readers.enter().leave()


async def test_when_a_run_has_ended_nobody_cares_who_leaves(time: LoopTime) -> None:
    noticed = Noticed()
    left, patient, hasty = Readers(noticed, grace=10), Readers(noticed, grace=10), Readers(noticed)
    left.enter().leave()
    reading = [patient.enter(), hasty.enter()]

    for readers in (left, patient, hasty):
        readers.close()
    for reader in reading:
        reader.leave()
    await time.passes(100)

    assert noticed.times == 0

"""Idempotency keys in Redis: what happens in the moment between two questions, and when nobody answers."""

from __future__ import annotations

import logging

import pytest

from app.runs import IdempotencyKey, SharedStateUnavailable
from app.runs.redis.keys import Keys
from tests.runs.redis.parts import Meddled

pytestmark = pytest.mark.server

KEY = IdempotencyKey("me", "key", "body")


@pytest.fixture
async def keys(meddled: Meddled) -> Keys:
    return Keys(meddled)


async def test_a_key_that_expires_while_it_is_looked_at_is_claimed_after_all(keys: Keys, meddled: Meddled) -> None:
    await keys.claim(KEY, "run_1")
    meddled.before("get", lambda: meddled.redis.delete(keys.name(KEY)))

    assert await keys.claim(KEY, "run_2") is None

    assert await keys.claim(KEY, "run_3") == "run_2"


async def test_a_key_that_cannot_be_freed_for_nobody_answers_frees_itself(
    keys: Keys, meddled: Meddled, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await keys.claim(KEY, "run_1")
    meddled.is_cut = True

    await keys.unclaim(KEY, "run_1")

    assert "is free in 15 s" in caplog.text
    assert 0 < await meddled.redis.ttl(keys.name(KEY)) <= 15


async def test_freeing_a_key_never_fails(keys: Keys, meddled: Meddled, caplog: pytest.LogCaptureFixture) -> None:
    await meddled.redis.rpush(keys.name(KEY), "no claim")

    await keys.unclaim(KEY, "run_1")

    assert [record.getMessage() for record in caplog.records] == [
        "an idempotency key whose run was refused cannot be freed"
    ]


async def test_a_key_that_took_too_long_begins_no_run(keys: Keys, meddled: Meddled) -> None:
    await keys.claim(KEY, "run_1")
    await keys.check(KEY, "run_1")

    with pytest.raises(SharedStateUnavailable, match="too long"):
        await keys.check(KEY, "run_2")
    await meddled.redis.delete(keys.name(KEY))
    with pytest.raises(SharedStateUnavailable, match="too long"):
        await keys.check(KEY, "run_1")

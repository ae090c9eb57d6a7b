"""How long to wait before a target is asked again, how often, and how much a process may repeat."""

from __future__ import annotations

import pytest

from app.chat import (
    ModelAuthenticationFailed,
    ModelBusy,
    ModelError,
    ModelProtocolError,
    ModelRateLimited,
    ModelRejected,
    ModelTimeout,
    ModelUnavailable,
    QuotaExceeded,
)
from app.providers.routing import RetryBudget, RetryPolicy
from app.providers.routing.verdicts import breaks, is_of_this_target, may_pass
from tests.support.routing import VirtualTime

POLICY = RetryPolicy(attempts=9, base_delay=1, max_delay=5, max_retry_after=20)


def test_the_back_off_doubles_up_to_its_end() -> None:
    assert [POLICY.delay(tries, None, lambda: 1.0) for tries in range(1, 6)] == [1, 2, 4, 5, 5]


def test_the_jitter_is_full() -> None:
    assert POLICY.delay(3, None, lambda: 0.0) == 0
    assert POLICY.delay(3, None, lambda: 0.25) == 1


def test_many_tries_overflow_nothing() -> None:
    assert RetryPolicy(attempts=10**9, max_delay=8).delay(10**6, None, lambda: 1.0) == 8


def test_a_wish_for_patience_is_granted_at_least() -> None:
    assert POLICY.delay(1, 7.5, lambda: 1.0) == 7.5
    assert POLICY.delay(4, 0.5, lambda: 1.0) == 5


def test_a_wish_for_too_much_patience_ends_it() -> None:
    assert POLICY.delay(1, 20, lambda: 1.0) == 20
    assert POLICY.delay(1, 20.1, lambda: 1.0) is None


def test_the_attempts_are_counted_with_the_first() -> None:
    policy = RetryPolicy(attempts=2)

    assert policy.delay(1, None) is not None
    assert policy.delay(2, None) is None


def test_a_process_has_its_floor_of_retries_and_a_share_of_its_calls() -> None:
    budget = RetryBudget(ratio=0.5, floor=2, window=10, now=VirtualTime())
    for _ in range(4):
        budget.called()

    assert [budget.take() for _ in range(5)] == [True, True, True, True, False]


def test_what_is_longer_ago_than_the_window_counts_no_more() -> None:
    time = VirtualTime()
    budget = RetryBudget(ratio=1, floor=1, window=10, now=time)
    budget.called()
    assert [budget.take() for _ in range(3)] == [True, True, False]

    time.now += 5
    budget.called()
    assert [budget.take() for _ in range(2)] == [True, False]
    time.now += 5
    assert [budget.take() for _ in range(2)] == [True, False]


def test_an_outage_is_not_multiplied() -> None:
    time = VirtualTime()
    budget = RetryBudget(ratio=0.2, floor=10, window=10, now=time)
    retries = 0
    for _ in range(10_000):
        time.now += 0.01
        budget.called()
        retries += sum(budget.take() for _ in range(2))

    assert 2000 <= retries <= 2000 + 10 * 10


VERDICTS: list[tuple[ModelError, bool, bool, bool]] = [
    # error, may pass, another target may do, speaks against the target
    (ModelUnavailable("", code="unreachable"), True, True, True),
    (ModelUnavailable("", status=500), True, True, True),
    (ModelUnavailable("", status=503), True, True, True),
    (ModelUnavailable("", status=408), True, True, False),
    (ModelUnavailable("", status=409), True, True, False),
    (ModelUnavailable("error in a 200", code="overloaded"), True, True, False),
    (ModelRateLimited("", status=429), True, True, False),
    (ModelRateLimited("", status=429, code="insufficient_quota"), False, True, False),
    (QuotaExceeded("", status=429), False, True, False),
    (ModelTimeout("", code="connect_timeout"), True, True, True),
    (ModelTimeout("", code="first_byte_timeout"), True, True, True),
    (ModelTimeout("", code="idle_timeout"), False, False, True),
    (ModelTimeout("", code="total_timeout"), False, False, True),
    (ModelProtocolError("", code="empty"), True, True, False),
    (ModelProtocolError("", code="malformed"), False, False, False),
    (ModelProtocolError("", code="truncated"), True, True, False),
    (ModelRejected("", status=400), False, False, False),
    (ModelAuthenticationFailed("", status=401), False, False, False),
    (ModelBusy("", code="queue_full"), False, False, False),
]


@pytest.mark.fault("E01", "E02")
@pytest.mark.parametrize(
    ("error", "passes", "elsewhere", "against"),
    VERDICTS,
    ids=[f"{type(error).__name__}-{error.status or error.code}" for error, *_ in VERDICTS],
)
def test_every_failure_has_its_verdict(error: ModelError, *, passes: bool, elsewhere: bool, against: bool) -> None:
    assert (may_pass(error), is_of_this_target(error), breaks(error)) == (passes, elsewhere, against)

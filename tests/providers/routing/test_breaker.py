"""When a target is left alone, and how it comes back."""

from __future__ import annotations

from app.providers.routing import Breaker, BreakerPolicy
from tests.support.routing import VirtualTime


def opened_breaker(time: VirtualTime) -> Breaker:
    """A breaker that two failures have just opened; it recovers after ten seconds."""
    breaker = Breaker(BreakerPolicy(failures=2, recovery=10), now=time)
    for _ in range(2):
        breaker.enter().failed()
    assert breaker.state == "open"
    return breaker


def test_failures_in_a_row_open_it() -> None:
    breaker = Breaker(BreakerPolicy(failures=2), now=VirtualTime())

    breaker.enter().failed()
    assert (breaker.state, breaker.admits) == ("closed", True)
    breaker.enter().failed()
    assert (breaker.state, breaker.admits) == ("open", False)


def test_a_success_between_them_ends_the_row() -> None:
    breaker = Breaker(BreakerPolicy(failures=2), now=VirtualTime())

    for _ in range(3):
        breaker.enter().failed()
        breaker.enter().succeeded()

    assert breaker.state == "closed"


def test_a_call_that_is_given_up_says_nothing() -> None:
    breaker = Breaker(BreakerPolicy(failures=2), now=VirtualTime())

    breaker.enter().failed()
    breaker.enter().abandoned()
    breaker.enter().failed()

    assert breaker.state == "open"


def test_after_a_while_one_call_may_try_and_only_one() -> None:
    time = VirtualTime()
    breaker = opened_breaker(time)

    time.now += 9.9
    assert not breaker.admits
    time.now += 0.1
    assert (breaker.state, breaker.admits) == ("half_open", True)
    breaker.enter()
    assert (breaker.state, breaker.admits) == ("half_open", False)


def test_a_probe_that_goes_well_closes_it_as_soon_as_the_answer_begins() -> None:
    time = VirtualTime()
    breaker = opened_breaker(time)
    time.now += 10

    probe = breaker.enter()
    probe.begun()

    assert breaker.state == "closed"
    probe.failed()
    assert breaker.state == "closed"


def test_a_probe_that_ends_without_pieces_closes_it_too() -> None:
    time = VirtualTime()
    breaker = opened_breaker(time)
    time.now += 10

    breaker.enter().succeeded()

    assert breaker.state == "closed"


def test_a_probe_that_fails_opens_it_for_as_long_again() -> None:
    time = VirtualTime()
    breaker = opened_breaker(time)
    time.now += 10

    breaker.enter().failed()

    assert breaker.state == "open"
    time.now += 9.9
    assert breaker.state == "open"
    time.now += 0.1
    assert breaker.admits


def test_a_probe_that_is_given_up_leaves_its_place_to_the_next_call() -> None:
    time = VirtualTime()
    breaker = opened_breaker(time)
    time.now += 10

    probe = breaker.enter()
    probe.abandoned()
    assert breaker.admits
    second = breaker.enter()
    second.failed()
    second.abandoned()

    assert breaker.state == "open"


def test_calls_from_before_it_opened_change_nothing() -> None:
    time = VirtualTime()
    breaker = Breaker(BreakerPolicy(failures=1, recovery=10), now=time)
    late = [breaker.enter() for _ in range(2)]
    breaker.enter().failed()
    time.now += 5

    late[0].failed()
    late[1].succeeded()

    assert not breaker.admits
    time.now += 5
    assert breaker.admits


def test_it_can_be_told_never_to_open() -> None:
    breaker = Breaker(BreakerPolicy(failures=None), now=VirtualTime())

    for _ in range(100):
        breaker.enter().failed()

    assert (breaker.state, breaker.admits) == ("closed", True)

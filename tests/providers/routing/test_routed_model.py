"""Asking again and asking another, in both modes, seen through a client with doubles that fail in each way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from random import Random
from typing import Any

import pytest

from app.chat import (
    ChatModel,
    ChatOptions,
    ChatResponse,
    Completed,
    ConfigurationError,
    ModelBusy,
    ModelError,
    ModelNotFound,
    ModelProtocolError,
    ModelRateLimited,
    ModelRejected,
    ModelTimeout,
    ModelUnavailable,
    Prompt,
    QuotaExceeded,
    TextDelta,
    Usage,
)
from app.client import ChatClient
from app.providers.routing import BreakerPolicy, Limits, RetryBudget, RetryPolicy, RoutedModel, Target
from app.providers.scripted import Cut, ScriptedModel, tool_calls
from tests.support.chains import collect, request_of
from tests.support.gates import PATIENCE
from tests.support.hesitant import Hesitant
from tests.support.modes import both_modes
from tests.support.routing import VirtualTime, routed
from tests.support.tools import echo


def unreachable() -> ModelError:
    return ModelUnavailable("nobody listens", code="unreachable")


def failed() -> ModelError:
    return ModelUnavailable("failed", status=500)


def busy(retry_after: float | None = None) -> ModelError:
    return ModelRateLimited("too often", status=429, retry_after=retry_after)


def empty() -> ModelError:
    return ModelProtocolError("an empty answer", code="empty")


def broken_off() -> ModelError:
    return ModelProtocolError("half an answer", code="truncated")


PASSING: list[Callable[[], ModelError]] = [
    unreachable,
    failed,
    busy,
    empty,
    broken_off,
    lambda: ModelUnavailable("conflict", status=409),
    lambda: ModelUnavailable("took too long", status=408),
    lambda: ModelTimeout("no connection", code="connect_timeout"),
    lambda: ModelTimeout("did not begin", code="first_byte_timeout"),
]
FINAL: list[Callable[[], ModelError]] = [
    lambda: ModelRejected("invalid message", status=400),
    lambda: ModelRateLimited("no money", status=429, code="insufficient_quota"),
    lambda: QuotaExceeded("no money", status=429),
    lambda: ModelProtocolError("no JSON", code="malformed"),
    lambda: ModelTimeout("took too long", code="total_timeout"),
]


def named(make: Callable[[], ModelError]) -> str:
    error = make()
    return f"{type(error).__name__}-{error.code or error.status}"


async def ask(model: ChatModel, /, *, stream: bool, **options: Any) -> ChatResponse:
    """The answer to a greeting, through a client."""
    return (await collect(ChatClient(model).run(request_of(stream=stream, **options)))).response


async def failure(model: ChatModel, /, *, stream: bool, **options: Any) -> ModelError:
    """What the greeting failed with."""
    with pytest.raises(ModelError) as caught:
        await ask(model, stream=stream, **options)
    return caught.value


# One target


@both_modes
@pytest.mark.parametrize("error", PASSING, ids=named)
async def test_what_may_pass_is_asked_again(error: Callable[[], ModelError], *, stream: bool) -> None:
    time = VirtualTime()
    model = ScriptedModel(error(), "Hello.")

    response = await ask(routed(None, model, time=time), stream=stream)

    assert response.content == "Hello."
    assert len(response.rounds) == 1
    assert len(model.prompts) == 2
    assert time.waits == [0.5]


@pytest.mark.fault("E01", "E02")
@both_modes
@pytest.mark.parametrize("error", FINAL, ids=named)
async def test_what_will_not_change_is_not(error: Callable[[], ModelError], *, stream: bool) -> None:
    time = VirtualTime()
    raised = error()
    model = ScriptedModel(raised, "Hello.")

    assert await failure(routed(None, model, time=time), stream=stream) is raised
    assert len(model.prompts) == 1
    assert time.waits == []


@both_modes
async def test_after_its_attempts_the_last_error_is_the_callers(*, stream: bool) -> None:
    time = VirtualTime()
    last = failed()
    model = ScriptedModel(failed(), busy(), last, "too late")

    assert await failure(routed(None, model, time=time), stream=stream) is last
    assert time.waits == [0.5, 1.0]


@pytest.mark.fault("U40")
@both_modes
@pytest.mark.parametrize("nothing", [empty, broken_off])
async def test_what_came_to_nothing_is_asked_for_once_more_only(
    nothing: Callable[[], ModelError], *, stream: bool
) -> None:
    model = ScriptedModel(nothing(), failed(), nothing(), "too late")

    error = await failure(routed(None, model, retry=RetryPolicy(attempts=9)), stream=stream)

    assert error.code == nothing().code
    assert len(model.prompts) == 3


async def test_once_a_piece_was_delivered_the_stream_fails_honestly() -> None:
    broken = ModelUnavailable("restarted", status=503)
    model, other = ScriptedModel(Cut("Well, ", broken), "again"), ScriptedModel("other")
    pieces: list[str] = []

    with pytest.raises(ModelUnavailable) as caught:
        async with aclosing(routed(None, model, other).stream(Prompt.of("Hello"))) as events:
            async for event in events:
                assert isinstance(event, TextDelta)
                pieces.append(event.text)

    assert caught.value is broken
    assert "".join(pieces).strip() == "Well,"
    assert (len(model.prompts), other.prompts) == (1, [])


async def test_a_blocking_call_has_delivered_nothing_before_its_end() -> None:
    model = ScriptedModel(Cut("Well, ", failed()), "Hello.")

    assert (await ask(routed(None, model), stream=False)).content == "Hello."


@both_modes
async def test_a_wish_for_patience_is_granted(*, stream: bool) -> None:
    time = VirtualTime()

    await ask(routed(None, ScriptedModel(busy(12.5), "Hello."), time=time), stream=stream)

    assert time.waits == [12.5]


@both_modes
async def test_a_wish_beyond_the_cap_goes_to_the_caller(*, stream: bool) -> None:
    time = VirtualTime()

    error = await failure(routed(None, ScriptedModel(busy(31), "too late"), time=time), stream=stream)

    assert error.retry_after == 31
    assert time.waits == []


@both_modes
async def test_all_calls_share_a_budget_of_retries(*, stream: bool) -> None:
    time = VirtualTime()
    model = ScriptedModel(forever=failed())
    budget = RetryBudget(ratio=0.5, floor=2, now=time)
    routing = routed(None, model, time=time, budget=budget, retry=RetryPolicy(base_delay=0))

    for _ in range(10):
        await failure(routing, stream=stream)

    assert len(model.prompts) == 10 + 2 + 5


@both_modes
async def test_the_callers_time_holds_for_all_tries_together(*, stream: bool) -> None:
    time = VirtualTime()
    model = ScriptedModel(busy(4), busy(4), busy(4), "too late")

    await failure(routed(None, model, time=time), stream=stream, timeout=10.0)

    assert time.waits == [4, 4]
    assert [prompt.options.timeout for prompt in model.prompts] == [10, 6, 2]


@both_modes
async def test_so_does_the_configured_time_where_the_request_says_nothing(*, stream: bool) -> None:
    time = VirtualTime()
    hasty, patient = ScriptedModel(forever=busy(4)), ScriptedModel(forever=busy(4))
    targets = [Target(hasty, "a", timeout=5), Target(patient, "b", timeout=10)]

    await failure(routed({"main": targets}, time=time), stream=stream)

    assert [prompt.options.timeout for prompt in hasty.prompts] == [5, 5, 2]
    assert [prompt.options.timeout for prompt in patient.prompts] == [10, 6, 2]


@both_modes
async def test_a_target_without_an_end_leaves_the_call_without_one(*, stream: bool) -> None:
    first, second = ScriptedModel(failed()), ScriptedModel("Hello.")

    await ask(routed({"main": [Target(first, "a", timeout=5), Target(second, "b")]}), stream=stream)

    assert [prompt.options.timeout for prompt in (*first.prompts, *second.prompts)] == [5, None]


@both_modes
async def test_who_has_little_time_waits_for_a_place_no_longer_than_that(*, stream: bool) -> None:
    reply = Hesitant()
    routing = routed({"main": [Target(ScriptedModel(reply), limits=Limits(1))]})
    first = asyncio.create_task(ask(routing, stream=stream))
    await asyncio.wait_for(reply.asked.wait(), PATIENCE)

    error = await failure(routing, stream=stream, timeout=0.001)

    assert (type(error), error.code) == (ModelBusy, "queue_timeout")
    reply.go_on.set()
    await first


@both_modes
async def test_tokens_of_tries_that_failed_are_counted(*, stream: bool) -> None:
    spent = ModelUnavailable("broke off", status=500, usage=Usage(5, 0, 5))
    model = ScriptedModel(spent, "Hello.", usage=Usage(5, 2, 7))

    response = await ask(routed(None, model), stream=stream)

    assert response.usage == Usage(10, 2, 12)
    assert [one.usage for one in response.rounds] == [response.usage]


@both_modes
async def test_so_are_those_of_all_tries_where_the_last_fails_too(*, stream: bool) -> None:
    errors = [ModelUnavailable("", status=500, usage=Usage(5)), failed(), ModelUnavailable("", status=500)]

    error = await failure(routed(None, ScriptedModel(*errors)), stream=stream)

    assert error.usage == Usage(5)


async def test_so_are_those_before_a_stream_that_breaks_off() -> None:
    broken = Cut("Well, ", ModelUnavailable("", status=500, usage=Usage(5, 1, 6)))
    model = ScriptedModel(ModelUnavailable("", status=500, usage=Usage(5)), broken)

    assert (await failure(routed(None, model), stream=True)).usage == Usage(10, 1, 6)


@both_modes
async def test_a_breaker_never_opens_for_an_aliass_only_target(*, stream: bool) -> None:
    model = ScriptedModel(*[unreachable()] * 30, "Hello.")
    routing = routed(None, model, retry=RetryPolicy(attempts=1), breaker=BreakerPolicy(failures=1))

    for _ in range(30):
        await failure(routing, stream=stream)

    assert [state.breaker for state in routing.targets] == ["closed"]
    assert (await ask(routing, stream=stream)).content == "Hello."


# Several targets


@both_modes
@pytest.mark.parametrize("error", [*PASSING, FINAL[1], FINAL[2]], ids=named)
async def test_where_one_target_fails_the_next_is_asked_at_once(
    error: Callable[[], ModelError], *, stream: bool
) -> None:
    time = VirtualTime()
    first, second = ScriptedModel(error()), ScriptedModel("Hello.")

    response = await ask(routed(None, first, second, time=time), stream=stream)

    assert response.content == "Hello."
    assert [one.target for one in response.rounds] == ["b"]
    assert time.waits == []


@both_modes
async def test_what_the_request_is_to_blame_for_is_asked_of_nobody_else(*, stream: bool) -> None:
    second = ScriptedModel("Hello.")

    error = await failure(routed(None, ScriptedModel(FINAL[0]()), second), stream=stream)

    assert (error.status, error.target) == (400, "a")
    assert second.prompts == []


@both_modes
async def test_after_all_have_failed_the_one_is_asked_again_that_waits_the_shortest(*, stream: bool) -> None:
    time = VirtualTime()
    patient, quick = ScriptedModel(busy(9), "too late"), ScriptedModel(busy(3), "Hello.")

    response = await ask(routed(None, patient, quick, time=time), stream=stream)

    assert response.rounds[0].target == "b"
    assert time.waits == [3]


@both_modes
async def test_asking_each_target_once_costs_nothing_of_the_budget(*, stream: bool) -> None:
    budget = RetryBudget(ratio=0, floor=0)
    first = ScriptedModel(forever=failed())
    routing = routed(None, first, ScriptedModel(forever="Hello."), budget=budget)

    for _ in range(3):
        assert (await ask(routing, stream=stream)).content == "Hello."


@both_modes
async def test_a_target_whose_quota_is_spent_is_left_out_of_the_call(*, stream: bool) -> None:
    spent, other = ScriptedModel(QuotaExceeded("", status=429)), ScriptedModel(failed(), "Hello.")

    assert (await ask(routed(None, spent, other), stream=stream)).content == "Hello."
    assert len(spent.prompts) == 1


@both_modes
async def test_a_target_that_keeps_failing_is_left_alone_and_then_tried_by_one_call(*, stream: bool) -> None:
    time = VirtualTime()
    first = ScriptedModel(failed(), failed(), "I am back.", "And stay.")
    routing = routed(
        None, first, ScriptedModel(forever="Hello."), time=time, breaker=BreakerPolicy(failures=2, recovery=30)
    )

    served = [(await ask(routing, stream=stream)).rounds[0].target for _ in range(4)]
    assert (served, len(first.prompts)) == (["b"] * 4, 2)
    assert [state.breaker for state in routing.targets] == ["open", "closed"]

    time.now += 30
    assert [state.breaker for state in routing.targets] == ["half_open", "closed"]
    assert (await ask(routing, stream=stream)).content == "I am back."
    assert (await ask(routing, stream=stream)).content == "And stay."
    assert [state.breaker for state in routing.targets] == ["closed", "closed"]


@pytest.mark.fault("E02")
@both_modes
@pytest.mark.parametrize(
    "error", [busy, empty, FINAL[0], FINAL[3], lambda: ModelUnavailable("", status=409)], ids=named
)
async def test_answers_that_cannot_be_used_open_no_breaker(error: Callable[[], ModelError], *, stream: bool) -> None:
    first = ScriptedModel(forever=error())
    routing = routed(
        None, first, ScriptedModel(forever=error()), retry=RetryPolicy(1), breaker=BreakerPolicy(failures=1)
    )

    for _ in range(5):
        await failure(routing, stream=stream)

    assert {state.breaker for state in routing.targets} == {"closed"}


@both_modes
@pytest.mark.parametrize(("timeout", "breaker"), [(None, "open"), (60.0, "open"), (1.0, "closed")])
async def test_a_caller_in_a_hurry_opens_no_breaker(timeout: float | None, breaker: str, *, stream: bool) -> None:
    slow = ScriptedModel(ModelTimeout("took too long", code="total_timeout"))
    targets = [Target(slow, "a", timeout=60), Target(ScriptedModel(), "b", timeout=60)]
    routing = routed({"main": targets}, breaker=BreakerPolicy(failures=1))

    await failure(routing, stream=stream, timeout=timeout)

    assert routing.targets[0].breaker == breaker


@both_modes
async def test_where_all_are_to_be_left_alone_the_longest_rested_is_asked_all_the_same(*, stream: bool) -> None:
    time = VirtualTime()
    first = ScriptedModel(unreachable(), "I am back.")
    second = ScriptedModel(forever=unreachable())
    routing = routed(None, first, second, time=time, breaker=BreakerPolicy(failures=1), retry=RetryPolicy(1))
    await failure(routing, stream=stream)
    assert {state.breaker for state in routing.targets} == {"open"}

    assert (await ask(routing, stream=stream)).content == "I am back."
    assert [state.breaker for state in routing.targets] == ["closed", "open"]


@both_modes
async def test_a_probe_that_its_caller_gives_up_is_made_by_the_next(*, stream: bool) -> None:
    time = VirtualTime()
    reply = Hesitant()
    first = ScriptedModel(failed(), reply, "I am back.")
    routing = routed(
        None, first, ScriptedModel(forever="Hello."), time=time, breaker=BreakerPolicy(failures=1, recovery=30)
    )
    await ask(routing, stream=stream)
    time.now += 30
    probe = asyncio.create_task(ask(routing, stream=stream))
    await asyncio.wait_for(reply.asked.wait(), PATIENCE)
    assert (await ask(routing, stream=stream)).content == "Hello."

    probe.cancel()
    await asyncio.gather(probe, return_exceptions=True)

    assert (await ask(routing, stream=stream)).content == "I am back."


@both_modes
async def test_neighbours_share_the_calls_by_their_weights(*, stream: bool) -> None:
    models = {name: ScriptedModel(forever=name) for name in ("heavy", "light", "last")}
    weights = {"heavy": 3.0, "light": 1.0, "last": None}
    targets = [Target(model, name, weights[name]) for name, model in models.items()]
    routing = routed({"main": targets}, uniform=Random(7).random)  # noqa: S311 - a lot, and always the same

    for _ in range(1000):
        await ask(routing, stream=stream)

    asked = {name: len(model.prompts) for name, model in models.items()}
    assert asked["last"] == 0
    assert 700 < asked["heavy"] < 800


@both_modes
async def test_the_rest_of_a_step_comes_before_the_next_step(*, stream: bool) -> None:
    targets = [
        Target(ScriptedModel(failed()), "a", 1),
        Target(ScriptedModel("b"), "b", 1),
        Target(ScriptedModel("c"), "c"),
    ]

    response = await ask(routed({"main": targets}), stream=stream)

    assert response.rounds[0].target == "b"


# Limits


@both_modes
async def test_where_a_target_is_full_the_next_is_asked(*, stream: bool) -> None:
    reply = Hesitant()
    targets = [Target(ScriptedModel(reply), "a", limits=Limits(1)), Target(ScriptedModel("Hello."), "b")]
    routing = routed({"main": targets})
    first = asyncio.create_task(ask(routing, stream=stream))
    await asyncio.wait_for(reply.asked.wait(), PATIENCE)

    assert (await ask(routing, stream=stream)).rounds[0].target == "b"
    assert [(state.active, state.waiting) for state in routing.targets] == [(1, 0), (0, 0)]

    reply.go_on.set()
    assert (await first).rounds[0].target == "a"


@both_modes
async def test_where_all_are_full_and_have_no_queue_the_caller_is_told_to_come_back(*, stream: bool) -> None:
    reply = Hesitant()
    routing = routed({"main": [Target(ScriptedModel(reply, "Hello."), limits=Limits(1, queue=0))]})
    first = asyncio.create_task(ask(routing, stream=stream))
    await asyncio.wait_for(reply.asked.wait(), PATIENCE)

    assert isinstance(await failure(routing, stream=stream), ModelBusy)

    reply.go_on.set()
    await first
    assert (await ask(routing, stream=stream)).content == "Hello."


@both_modes
async def test_the_place_is_free_again_while_a_retry_waits(*, stream: bool) -> None:
    time = VirtualTime()
    model = ScriptedModel(failed(), "Hello.")
    routing = routed({"main": [Target(model, limits=Limits(1, queue=0))]}, time=time)
    active: list[int] = []

    async def sleep(seconds: float) -> None:
        active.extend(state.active for state in routing.targets)

    routing._sleep = sleep
    await ask(routing, stream=stream)

    assert active == [0]


async def test_a_stream_that_is_left_gives_its_place_back() -> None:
    model = ScriptedModel(forever="A long answer of many words.")
    routing = routed({"main": [Target(model, limits=Limits(1, queue=0))]})

    for _ in range(50):
        async with aclosing(routing.stream(Prompt.of("Hello"))) as events:
            await anext(events)

    assert [(state.active, state.waiting) for state in routing.targets] == [(0, 0)]


@both_modes
@pytest.mark.parametrize("error", [failed(), LookupError("a fault of ours")], ids=["model", "fault"])
async def test_a_failure_gives_its_place_back(error: Exception, *, stream: bool) -> None:
    routing = routed({"main": [Target(ScriptedModel(forever=error), limits=Limits(1, queue=0))]})

    with pytest.raises(type(error)):
        await ask(routing, stream=stream)

    assert [state.active for state in routing.targets] == [0]


@both_modes
async def test_a_cancelled_call_gives_its_place_back(*, stream: bool) -> None:
    reply = Hesitant()
    routing = routed({"main": [Target(ScriptedModel(reply), limits=Limits(1))]})
    call = asyncio.create_task(ask(routing, stream=stream))
    await asyncio.wait_for(reply.asked.wait(), PATIENCE)

    call.cancel()
    await asyncio.gather(call, return_exceptions=True)

    assert reply.cancelled.is_set()
    assert [state.active for state in routing.targets] == [0]


# Aliases


@both_modes
async def test_the_model_of_a_request_names_an_alias_and_the_target_knows_its_own_name(*, stream: bool) -> None:
    fast, good = ScriptedModel("quick"), ScriptedModel("well-considered")
    routing = routed({"fast": [Target(fast)], "good": [Target(good)]})

    assert (await ask(routing, stream=stream, model="good")).content == "well-considered"
    assert (await ask(routing, stream=stream)).content == "quick"
    assert [prompt.options.model for prompt in (*fast.prompts, *good.prompts)] == [None, None]


@both_modes
async def test_an_unknown_alias_is_refused(*, stream: bool) -> None:
    routing = routed({"fast": [Target(ScriptedModel())], "good": [Target(ScriptedModel())]})

    error = await failure(routing, stream=stream, model="better")

    assert isinstance(error, ModelNotFound)
    assert str(error) == "unknown model 'better'; known: 'fast', 'good'"


@both_modes
async def test_with_a_single_alias_another_name_is_the_servers_to_know(*, stream: bool) -> None:
    model = ScriptedModel("Hello.")

    await ask(routed(None, model), stream=stream, model="other")

    assert model.prompts[0].options.model == "other"


@both_modes
async def test_an_answer_without_a_models_name_has_the_aliass(*, stream: bool) -> None:
    routing = routed({"main": [Target(ScriptedModel(name=""))], "good": [Target(ScriptedModel("Hi.", name=""))]})

    assert (await ask(routing, stream=stream, model="good")).model == "good"


@both_modes
async def test_each_round_says_which_target_served_it(*, stream: bool) -> None:
    first = ScriptedModel(tool_calls(("echo", {})), failed())
    client = ChatClient(routed(None, first, ScriptedModel("Done.")), tools=[echo()])

    asked = await collect(client.run(request_of(stream=stream)))

    assert [one.target for one in asked.response.rounds] == ["a", "b"]


@both_modes
async def test_a_target_without_a_name_is_not_told(*, stream: bool) -> None:
    routing = routed({"main": [Target(ScriptedModel("Hello."))]})

    assert [one.target for one in (await ask(routing, stream=stream)).rounds] == [None]


def test_the_default_comes_first() -> None:
    targets = [Target(ScriptedModel())]
    routing = RoutedModel({"fast": targets, "good": targets}, default="good")

    assert (routing.name, routing.aliases) == ("good", ("good", "fast"))
    assert [state.alias for state in routing.targets] == ["good", "fast"]
    assert routing.default_options == ChatOptions()


@pytest.mark.parametrize(
    ("routes", "default", "problem"),
    [
        ({}, None, "there is no alias"),
        ({"fast": []}, None, "the alias 'fast' has no target"),
        ({"fast": [Target(ScriptedModel())]}, "good", "'good' is none of the aliases fast"),
        ({"fast": [Target(ScriptedModel(), "a")] * 2}, None, "two targets of the alias 'fast' are named 'a'"),
    ],
)
def test_what_cannot_be_routed_is_refused(routes: dict[str, list[Target]], default: str | None, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        RoutedModel(routes, default=default)


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf")])
def test_a_weight_is_above_nothing(weight: float) -> None:
    with pytest.raises(ConfigurationError, match="weight of target 'a' must be above 0"):
        Target(ScriptedModel(), "a", weight)


async def test_all_targets_are_closed_also_where_one_cannot_be() -> None:
    class Stuck(ScriptedModel):
        async def aclose(self) -> None:
            raise OSError("stuck")

    models = [ScriptedModel(), Stuck(), ScriptedModel()]

    with pytest.raises(OSError, match="stuck"):
        await routed(None, *models).aclose()

    assert [model.closed for model in models] == [True, False, True]


# What is logged


@both_modes
async def test_a_retry_is_logged_without_what_was_said(caplog: pytest.LogCaptureFixture, *, stream: bool) -> None:
    first = ScriptedModel(ModelUnavailable("the user's secret", status=500, code="busy"))

    await ask(routed(None, first, ScriptedModel("Hello.")), stream=stream)

    [record] = [one for one in caplog.records if one.name.startswith("app.providers.routing")]
    assert record.levelno == logging.WARNING
    assert record.getMessage() == (
        "model='main' target='a' failed='ModelUnavailable' status=500 code='busy'; asking 'b' in 0.0 s"
    )


async def test_a_stream_completes_with_the_answer_it_told() -> None:
    async with aclosing(routed(None, ScriptedModel("Hello there.")).stream(Prompt.of("Hi"))) as events:
        told = [event async for event in events]

    assert isinstance(told[-1], Completed)
    assert "".join(event.text for event in told if isinstance(event, TextDelta)) == told[-1].response.content

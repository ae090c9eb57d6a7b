"""The model over a scripted transport: what it asks, how long it waits, and what it gives back on every path."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from typing import Any

import pytest

from app.chat import (
    ChatEvent,
    ChatModel,
    ChatOptions,
    ChatResponse,
    Completed,
    ConfigurationError,
    FinishReason,
    ModelError,
    ModelProtocolError,
    ModelRateLimited,
    ModelRejected,
    ModelTimeout,
    ModelUnavailable,
    Prompt,
    TextDelta,
    Usage,
    well_formed,
)
from app.providers.clock import Alarms, Clock, Timeouts
from app.providers.openai import OpenAIModel
from app.providers.profiles import Profile
from app.providers.transport import WireRequest, WireResponse
from tests.support.chunks import USAGE, call, calls, chunk, completion, event, stream, text_stream
from tests.support.modes import both_modes
from tests.support.wire import Piece, ScriptedResponse, ScriptedTransport

HI = Prompt.of("Hi")
KEY = "sk-test-0123456789"
URL = "http://models.example/v1"


def model_of(
    *script: ScriptedResponse | ModelError | asyncio.Event, **options: Any
) -> tuple[OpenAIModel, ScriptedTransport]:
    transport = ScriptedTransport(*script)
    return OpenAIModel(URL, **{"model": "probe", "transport": transport, **options}), transport


def broken_line() -> ModelProtocolError:
    return ModelProtocolError("the line broke", code="truncated")


async def asked(model: ChatModel, prompt: Prompt = HI, *, stream: bool) -> tuple[list[ChatEvent], ChatResponse]:
    if not stream:
        response = await model.call(prompt)
        return [Completed(response)], response
    async with aclosing(model.stream(prompt)) as events:
        told = [one async for one in well_formed(events)]
    last = told[-1]
    assert isinstance(last, Completed)
    return told, last.response


@both_modes
@pytest.mark.fault("U42")
@pytest.mark.parametrize(
    "body", [text_stream("Track ", "9."), completion("Track 9.")], ids=["a stream", "a completion"]
)
async def test_either_kind_of_answer_is_taken_whatever_was_asked_for(body: bytes, stream: bool) -> None:
    response = ScriptedResponse(body[:30], body[30:], headers={"content-type": "text/plain"})
    model, _ = model_of(response)

    _, answer = await asked(model, stream=stream)

    assert (answer.content, answer.finish_reason, answer.usage.total_tokens) == ("Track 9.", FinishReason.STOP, 25)
    assert response.closed


@both_modes
async def test_a_request_is_one_post_of_what_was_asked(stream: bool) -> None:
    model, transport = model_of(ScriptedResponse(text_stream("ok")), api_key=KEY, headers={"X-Title": "Harbour"})

    await asked(model, stream=stream)

    [request] = transport.requests
    assert request.url == "http://models.example/v1/chat/completions"
    assert request.shown_url == URL
    assert request.headers == {
        "Accept": "text/event-stream" if stream else "application/json",
        "Authorization": f"Bearer {KEY}",
        "X-Title": "Harbour",
    }
    [body] = transport.bodies
    assert (body["model"], body["stream"]) == ("probe", stream)


@both_modes
async def test_a_models_own_options_hold_where_the_prompt_says_nothing(stream: bool) -> None:
    defaults = ChatOptions(temperature=0.5, seed=1, extra={"top_k": 1})
    model, transport = model_of(
        ScriptedResponse(text_stream("ok")),
        default_options=defaults,
        profile=Profile(max_tokens_field="max_completion_tokens"),
    )

    await asked(model, Prompt.of("Hi", seed=2, model="other", max_tokens=3, extra={"min_p": 2}), stream=stream)

    [body] = transport.bodies
    known = ("temperature", "seed", "model", "max_completion_tokens", "top_k", "min_p")
    assert [body[name] for name in known] == [0.5, 2, "other", 3, 1, 2]
    assert model.default_options is defaults


def test_a_model_is_named_by_what_is_known_of_it() -> None:
    assert OpenAIModel(URL).name == "model"
    assert OpenAIModel(URL, model="probe").name == "probe"
    assert OpenAIModel(URL, model="probe", name="fast").name == "fast"
    assert OpenAIModel(URL).default_options == ChatOptions()


@pytest.mark.fault("X01")
def test_a_key_is_stripped_and_one_that_cannot_be_sent_stops_the_start() -> None:
    transport = ScriptedTransport(ScriptedResponse())
    model = OpenAIModel(f"{URL}?key=in-the-url", api_key=f" {KEY}\r\n", transport=transport)

    assert repr(model) == "OpenAIModel('http://models.example/v1', model=None)"
    with pytest.raises(ConfigurationError):
        OpenAIModel(URL, api_key="sk-a\r\nb")
    with pytest.raises(ConfigurationError):
        OpenAIModel("models.example")


@both_modes
async def test_a_blank_key_is_none(stream: bool) -> None:
    model, transport = model_of(ScriptedResponse(text_stream("ok")), api_key=" \n")

    await asked(model, stream=stream)

    assert "Authorization" not in transport.requests[0].headers


@both_modes
@pytest.mark.fault("X01")
async def test_no_secret_is_in_an_error_or_an_answer_though_the_server_echoes_them(stream: bool) -> None:
    secrets: dict[str, Any] = {"api_key": KEY, "headers": {"X-Api-Key": "second-key-77"}}
    echo = f"I got {KEY} and second-key-77 and url-key-5 and p4ssw0rd at http://u:p4ssw0rd@h/?token=t0"
    transport = ScriptedTransport(
        ScriptedResponse(json.dumps({"error": {"message": echo, "code": KEY}}).encode(), status=401),
        ScriptedResponse(event({"error": {"message": echo}})),
        ScriptedResponse(f"<title>{echo}</title>".encode().replace(b"<title>", b"<html><title>")),
        ScriptedResponse(echo.encode()),
        ScriptedResponse(event(echo.encode())),
        ScriptedResponse(text_stream(f"Your keys: {KEY[:8]}", f"{KEY[8:]}, second", "-key-77, url-key-5, p4ssw0rd.")),
    )
    model = OpenAIModel("http://u:p4ssw0rd@models.example/v1?key=url-key-5", transport=transport, **secrets)

    seen = []
    for _ in range(5):
        with pytest.raises(ModelError) as caught:
            await asked(model, stream=stream)
        seen.append(f"{caught.value!r} {caught.value.code} {caught.value.__cause__!r} {caught.value.__context__!r}")
    told, answer = await asked(model, stream=stream)
    seen.append(repr(told))

    for text in seen:
        assert not any(secret in text for secret in (KEY, KEY[8:], "second-key-77", "url-key-5", "p4ss"))
    assert answer.content == "Your keys: ***, ***, ***, ***."


@both_modes
@pytest.mark.parity(159)
async def test_rate_limits_are_told_with_the_answer(stream: bool) -> None:
    limited = {"x-ratelimit-remaining-requests": "59", "content-type": "text/event-stream"}
    model, _ = model_of(ScriptedResponse(text_stream("a"), headers=limited), ScriptedResponse(text_stream("b")))

    _, first = await asked(model, stream=stream)
    _, second = await asked(model, stream=stream)

    assert first.extra == {"rate_limits": {"x-ratelimit-remaining-requests": "59"}}
    assert second.extra == {}


@both_modes
@pytest.mark.fault("D08", "E09", "S10")
@pytest.mark.parametrize(
    ("status", "kind"), [(429, ModelRateLimited), (503, ModelUnavailable), (400, ModelRejected), (302, ModelRejected)]
)
async def test_a_status_of_failure_is_an_error_and_the_response_is_closed(
    status: int, kind: type[ModelError], stream: bool
) -> None:
    response = ScriptedResponse(b'{"error": {"mess', b'age": "no"}}', status=status, headers={"retry-after": "4"})
    model, _ = model_of(response)

    with pytest.raises(kind) as caught:
        await asked(model, stream=stream)

    assert response.closed
    assert caught.value.status == status
    if kind is not ModelRejected:
        assert (caught.value.retry_after, "no" in str(caught.value)) == (4.0, True)


@pytest.mark.fault("D08")
async def test_of_an_error_s_body_only_so_much_is_read() -> None:
    class Endless(ScriptedResponse):
        reads = 0

        async def read(self) -> bytes:
            self.reads += 1
            return b"x" * 1024

    response = Endless(status=500)
    model, _ = model_of(response)

    with pytest.raises(ModelUnavailable):
        await model.call(HI)

    assert response.reads <= 64
    assert response.closed


@pytest.mark.fault("D08")
@pytest.mark.parametrize("rest", [asyncio.Event, broken_line], ids=["stalls", "breaks"])
async def test_an_error_s_body_that_does_not_end_does_not_hide_the_error(rest: Callable[[], Piece]) -> None:
    response = ScriptedResponse(b"overloaded", rest(), status=503)
    model, _ = model_of(response, timeouts=Timeouts(total=0.05))

    with pytest.raises(ModelUnavailable, match="overloaded"):
        await model.call(HI)

    assert response.closed


@both_modes
@pytest.mark.fault("D07")
@pytest.mark.parametrize(
    "pieces",
    [
        [event(chunk({"content": "Half"}))],
        [event(chunk({"content": "Half"})), broken_line()],
        [event(chunk({"content": "Half"})), event({"error": "lost"})],
        [b"<html>"],
    ],
    ids=["ends early", "breaks", "tells of an error", "is a page"],
)
async def test_an_answer_that_cannot_be_used_is_an_error_and_the_response_is_closed(
    pieces: list[Piece], stream: bool
) -> None:
    response = ScriptedResponse(*pieces)
    model, _ = model_of(response)

    with pytest.raises(ModelError):
        await asked(model, stream=stream)

    assert response.closed


@both_modes
async def test_an_error_of_the_transport_is_passed_on(stream: bool) -> None:
    model, _ = model_of(ModelUnavailable("cannot be reached", code="unreachable"))

    with pytest.raises(ModelUnavailable, match="cannot be reached"):
        await asked(model, stream=stream)


@pytest.mark.parity(165)
@pytest.mark.fault("D07", "D13")
async def test_a_listener_that_leaves_closes_the_response() -> None:
    response = ScriptedResponse(event(chunk({"content": "a"})), asyncio.Event())
    model, _ = model_of(response)

    async with aclosing(model.stream(HI)) as events:
        assert await anext(events) == TextDelta("a")
        assert not response.closed

    assert response.closed


@both_modes
@pytest.mark.fault("D07")
async def test_a_cancelled_call_closes_the_response(stream: bool) -> None:
    class Told(ScriptedResponse):
        reading = asyncio.Event()

        async def read(self) -> bytes:
            self.reading.set()
            return await super().read()

    response = Told(asyncio.Event())
    response.reading = asyncio.Event()
    model, _ = model_of(response)
    task = asyncio.create_task(asked(model, stream=stream))
    await response.reading.wait()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert response.closed


@both_modes
@pytest.mark.fault("U18")
@pytest.mark.parametrize("end", [asyncio.Event, broken_line], ids=["silence", "a reset"])
async def test_an_answer_with_its_finish_reason_is_whole_though_the_line_does_not_end_well(
    end: Callable[[], Piece], stream: bool
) -> None:
    said = event(chunk({"content": "All said."})) + event(chunk(finish="stop"))
    response = ScriptedResponse(said, end())
    model, _ = model_of(response, timeouts=Timeouts(end=0.02))

    _, answer = await asked(model, stream=stream)

    assert answer.content == "All said."
    assert response.closed


@both_modes
async def test_what_follows_the_end_mark_is_read_away_so_that_the_line_can_be_used_again(stream: bool) -> None:
    response = ScriptedResponse(text_stream("ok"), b"data: more\n\n")
    model, _ = model_of(response)

    _, answer = await asked(model, stream=stream)

    assert answer.content == "ok"
    assert await response.read() == b"", "nothing is left"


@both_modes
async def test_a_server_that_keeps_the_line_open_after_the_end_mark_does_not_hold_up_the_answer(stream: bool) -> None:
    response = ScriptedResponse(text_stream("ok"), asyncio.Event())
    model, _ = model_of(response)

    async with asyncio.timeout(3):
        _, answer = await asked(model, stream=stream)

    assert answer.content == "ok"


@both_modes
@pytest.mark.parity(177)
async def test_the_timeout_option_bounds_the_whole_call(stream: bool) -> None:
    model, _ = model_of(asyncio.Event(), ScriptedResponse(text_stream("never")))

    with pytest.raises(ModelTimeout, match="longer than") as caught:
        await asked(model, Prompt.of("Hi", timeout=0.02), stream=stream)
    assert caught.value.code == "total_timeout"


@both_modes
async def test_the_whole_call_has_its_limit_within_the_answer_too(stream: bool) -> None:
    response = ScriptedResponse(event(chunk({"content": "a"})), asyncio.Event())
    model, _ = model_of(response, timeouts=Timeouts(total=0.03))

    with pytest.raises(ModelTimeout, match="longer than"):
        await asked(model, stream=stream)
    assert response.closed


async def test_a_stream_must_begin_in_time_but_a_blocking_answer_may_think() -> None:
    gate = asyncio.Event()
    model, _ = model_of(gate, ScriptedResponse(text_stream("a")), timeouts=Timeouts(first_byte=0.02))

    with pytest.raises(ModelTimeout, match="did not begin to answer within") as caught:
        await asked(model, stream=True)
    assert caught.value.code == "first_byte_timeout"
    asyncio.get_running_loop().call_later(0.05, gate.set)
    assert (await model.call(HI)).content == "a"


@pytest.mark.fault("D10")
async def test_silence_within_a_stream_has_a_limit() -> None:
    model, _ = model_of(ScriptedResponse(event(chunk({"content": "a"})), asyncio.Event()), timeouts=Timeouts(idle=0.03))

    with pytest.raises(ModelTimeout, match="silent for") as caught:
        await asked(model, stream=True)
    assert caught.value.code == "idle_timeout"


@pytest.mark.fault("D10", "U32")
@pytest.mark.parametrize("pause", [True, False], ids=["now and then", "in a flood"])
@pytest.mark.parametrize(
    "alive", [b": still here\n\n", b"data: null\n\n", event(chunk({"role": "assistant", "content": ""}))]
)
async def test_keep_alives_do_not_break_the_silence(alive: bytes, pause: bool) -> None:
    class Alive(ScriptedResponse):
        async def read(self) -> bytes:
            if pause:
                await asyncio.sleep(0)
            return alive

    response = Alive()
    model, _ = model_of(response, timeouts=Timeouts(idle=0.05))

    async with asyncio.timeout(5):
        with pytest.raises(ModelTimeout, match="silent"):
            await asked(model, stream=True)
    assert response.closed


@pytest.mark.fault("D10")
async def test_content_breaks_the_silence_each_time() -> None:
    loop = asyncio.get_running_loop()
    gates = [asyncio.Event() for _ in range(6)]
    for number, gate in enumerate(gates, 1):
        loop.call_later(0.03 * number, gate.set)
    pieces: list[Piece] = list(
        itertools.chain.from_iterable((gate, event(calls(call("f", "1", call_id="")))) for gate in gates)
    )
    model, _ = model_of(ScriptedResponse(*pieces, stream(chunk(finish="length"))), timeouts=Timeouts(idle=0.1))

    _, answer = await asked(model, stream=True)

    assert answer.tool_calls[0].arguments == "111111", "told late, for the call has no id, but content all the same"


@pytest.mark.fault("D10")
async def test_time_that_the_listener_takes_is_not_the_server_s_silence() -> None:
    pieces = [event(chunk({"content": "a"})), event(chunk({"content": "b"})), stream(chunk(finish="stop"))]
    model, _ = model_of(ScriptedResponse(*pieces), timeouts=Timeouts(idle=0.03))
    busy = asyncio.Event()
    asyncio.get_running_loop().call_later(0.06, busy.set)

    async with aclosing(model.stream(HI)) as events:
        told = [await anext(events)]
        await busy.wait()
        told += [one async for one in events]

    assert [type(one) for one in told] == [TextDelta, TextDelta, Completed]


@pytest.mark.fault("D10")
async def test_a_blocking_answer_may_think_but_not_stop_in_the_middle() -> None:
    gate = asyncio.Event()
    asyncio.get_running_loop().call_later(0.1, gate.set)
    thinking = ScriptedResponse(b"\n", gate, completion("a"))
    stopped = ScriptedResponse(completion("a")[:20], asyncio.Event())
    model, _ = model_of(thinking, stopped, timeouts=Timeouts(idle=0.05))

    assert (await model.call(HI)).content == "a"
    with pytest.raises(ModelTimeout, match="silent for"):
        await model.call(HI)
    assert stopped.closed


@both_modes
@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(b'data: {"error": {"message": "boom", "code": 500}}\n\n', id="an error"),
        pytest.param(b"data: [1]\n\n", id="malformed"),
        pytest.param(b"", id="cut"),
        pytest.param(None, id="silence"),
    ],
)
async def test_what_an_answer_used_is_told_with_its_error(rest: bytes | None, stream: bool) -> None:
    begun = event(chunk({"content": "a"}, usage=USAGE))
    model, _ = model_of(
        ScriptedResponse(begun, asyncio.Event() if rest is None else rest), timeouts=Timeouts(idle=0.02)
    )

    with pytest.raises(ModelError) as caught:
        await asked(model, stream=stream)

    assert caught.value.usage == Usage(21, 4, 25)


@both_modes
async def test_usage_told_beside_an_error_is_told_with_it(stream: bool) -> None:
    body = json.dumps({"error": {"message": "boom", "code": 500}, "usage": USAGE}).encode()
    model, _ = model_of(ScriptedResponse(body))

    with pytest.raises(ModelUnavailable) as caught:
        await asked(model, stream=stream)

    assert caught.value.usage == Usage(21, 4, 25)


@both_modes
async def test_what_a_refused_request_used_is_unknown(stream: bool) -> None:
    model, _ = model_of(ScriptedResponse(b"no", status=400))

    with pytest.raises(ModelRejected) as caught:
        await asked(model, stream=stream)

    assert caught.value.usage is None


async def test_without_limits_a_call_may_take_for_ever() -> None:
    clock = Clock(Timeouts(None, None, None, None, None), None, Alarms(), stream=True)

    async def send() -> ScriptedResponse:
        return ScriptedResponse(b"x")

    assert clock.at_most(None) is None
    assert await clock.piece(await clock.head(send), came=False, at_end=True) == b"x"


class EchoTransport(ScriptedTransport):
    """Answers with the question, a character at a time."""

    async def send(self, request: WireRequest) -> WireResponse:
        said = json.loads(request.body)["messages"][0]["content"]
        return ScriptedResponse(*(event(chunk({"content": piece})) for piece in said), stream(chunk(finish="stop")))


@both_modes
@pytest.mark.fault("K08", "K09")
async def test_calls_at_the_same_moment_do_not_see_each_other(stream: bool) -> None:
    model = OpenAIModel(URL, transport=EchoTransport())
    questions = ["one", "two", "three"]

    answers = await asyncio.gather(*(asked(model, Prompt.of(question), stream=stream) for question in questions))

    assert [answer.content for _, answer in answers] == questions


async def test_closing_a_model_closes_its_transport() -> None:
    model, transport = model_of(ScriptedResponse())

    await model.aclose()
    await model.aclose()

    assert transport.closed == 2


def test_a_stream_is_an_async_generator_that_begins_when_it_is_iterated() -> None:
    model, transport = model_of(ScriptedResponse())

    assert isinstance(model.stream(HI), AsyncGenerator)
    assert transport.requests == []


@both_modes
@pytest.mark.parametrize(
    "script",
    [
        lambda: ScriptedResponse(text_stream("ok")),
        lambda: ScriptedResponse(b"{}", status=500),
        lambda: ScriptedResponse(text_stream("ok")[:30]),
        lambda: ModelUnavailable("nobody answers"),
    ],
    ids=["an answer", "an error", "a cut answer", "no answer"],
)
async def test_calls_that_have_ended_leave_one_timer_and_none_when_their_model_is_closed(
    stream: bool, script: Callable[[], ScriptedResponse | ModelError], monkeypatch: pytest.MonkeyPatch
) -> None:
    timers: list[asyncio.TimerHandle] = []
    loop = asyncio.get_running_loop()
    call_at = loop.call_at

    def noted(moment: float, *called: Any, **options: Any) -> asyncio.TimerHandle:
        timers.append(call_at(moment, *called, **options))
        return timers[-1]

    monkeypatch.setattr(loop, "call_at", noted)
    model, _ = model_of(*(script() for _ in range(3)))
    for _ in range(3):
        with suppress(ModelError):
            await asked(model, stream=stream)
    assert [timer.cancelled() for timer in timers].count(False) == 1
    await model.aclose()

    assert all(timer.cancelled() for timer in timers)

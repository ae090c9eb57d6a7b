"""The gateway put together: what is made of which setting, what stops the start, and what is closed at the end."""

from __future__ import annotations

import asyncio
import logging
import sys
from functools import partial
from typing import Any

import pytest

from app.advisors import MemoryAdvisor, ToolCallingAdvisor
from app.chat import (
    Advisor,
    AssistantMessage,
    BaseAdvisor,
    ChatRequest,
    ConfigurationError,
    Message,
    ToolContext,
    ToolMessage,
    UserMessage,
)
from app.main import create_app
from app.memory import InMemoryChatMemory
from app.providers.routing import RoutedModel
from app.providers.scripted import ScriptedModel, tool_calls
from app.settings import Settings
from app.startup import DEMO_NOTE, warn_of_lone_memory
from app.tooling import ToolCallingManager
from tests.support.modes import both_modes
from tests.support.tools import HandWrittenTool, Held, echo
from tests.support.web import ask, gateway, opened, serving

KEY = "sk-0123456789abcdef"


class Marking(BaseAdvisor):
    """An advisor that leaves a mark in each request's messages."""

    def __init__(self, mark: str = "marked") -> None:
        super().__init__()
        self._mark = mark

    async def before(self, request: ChatRequest) -> ChatRequest:
        return request.with_messages((*request.messages, UserMessage(self._mark)))


def marking() -> Advisor:
    """A factory of an operator's own."""
    return Marking("by setting")


def no_advisor() -> object:
    """A factory that makes something else."""
    return object()


def failing() -> Advisor:
    """A factory that cannot."""
    raise LookupError("no word list")


def texts(messages: tuple[Message, ...]) -> list[str]:
    """What users said."""
    return [message.content for message in messages if isinstance(message, UserMessage)]


# --- the demo


@both_modes
async def test_without_any_setting_the_demo_model_answers_with_the_tools_shipped(
    caplog: pytest.LogCaptureFixture, *, stream: bool
) -> None:
    async with serving(create_app()) as client:
        answer = (await ask(client, "What is 6 * 7?", stream=stream)).document

    assert answer["model"] == "demo"
    assert answer["tool_runs"]
    assert "42" in answer["content"]
    assert [record.levelname for record in caplog.records if record.getMessage() == DEMO_NOTE] == ["WARNING"]


async def test_a_model_of_ones_own_is_no_demo(caplog: pytest.LogCaptureFixture) -> None:
    async with gateway(ScriptedModel()):
        pass

    assert DEMO_NOTE not in caplog.text


# --- settings


@pytest.mark.fault("X02", "X03")
async def test_a_configured_model_is_asked_by_its_name_and_its_key_is_logged_nowhere(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    settings = Settings(
        model={
            "base_url": "http://127.0.0.1:1/v1",
            "api_key": KEY,
            "name": "small",
            "headers": {"X-Team": KEY},
            "profile": {"empty_content": "omit"},
        }
    )
    async with opened(create_app(settings, tools=[])) as (client, parts):
        assert isinstance(parts.client.model, RoutedModel)
        ready = (await client.get("/readyz")).json()

    assert (ready["model"], ready["demo"]) == ("small", False)
    assert ready["targets"] == [{"alias": "small", "breaker": "closed", "active": 0, "waiting": 0}]
    assert KEY not in caplog.text + "".join(capfd.readouterr()) + repr(settings)


async def test_tools_are_found_in_the_configured_packages() -> None:
    app = create_app(Settings(tools={"packages": ["tests.web.example_tools"]}), model=ScriptedModel())
    async with serving(app) as client:
        listed = (await client.get("/tools")).json()["tools"]

    assert [one["name"] for one in listed] == ["greet"]


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("max_calls_per_tool", 1, "per tool"),
        ("max_total_calls", 1, "total"),
        ("max_rounds", 1, "rounds"),
        ("max_identical_calls", 1, "identical"),
    ],
)
@both_modes
async def test_limits_are_the_configured_ones(name: str, value: int, kind: str, *, stream: bool) -> None:
    tools = [echo("one"), echo("two")]
    same = name in {"max_calls_per_tool", "max_identical_calls"}
    script = [tool_calls(("one", {"n": 1})), tool_calls(("one" if same else "two", {"n": 1}))]
    async with gateway(ScriptedModel(*script), tools, settings={"tool_calling": {name: value}}) as client:
        answer = (await ask(client, stream=stream)).document

    assert answer["finish_reason"] == "tool_call_limit"
    assert len(answer["rounds"]) == (1 if kind == "rounds" else 2)


@pytest.mark.fault("L01")
@both_modes
async def test_at_a_limit_the_model_may_be_told_instead(*, stream: bool) -> None:
    settings = {"tool_calling": {"max_calls_per_tool": 1, "on_limit": "return_error"}}
    model = ScriptedModel(tool_calls(("echo", {"n": 1})), tool_calls(("echo", {"n": 2})), "I stop.")
    async with gateway(model, [echo()], settings=settings) as client:
        answer = (await ask(client, stream=stream)).document

    assert (answer["finish_reason"], answer["content"]) == ("stop", "I stop.")
    assert "error" in answer["tool_runs"][1]


@pytest.mark.fault("D11")
@both_modes
async def test_tools_have_the_configured_time(*, stream: bool) -> None:
    held = Held()
    model = ScriptedModel(tool_calls(("held", {})), "It hangs.")
    async with gateway(model, [held.tool], settings={"tool_calling": {"tool_timeout": 0.001}}) as client:
        answer = (await ask(client, stream=stream)).document

    assert answer["content"] == "It hangs."
    assert "error" in answer["tool_runs"][0]


@pytest.mark.parity(43)
@both_modes
async def test_the_operator_can_leave_the_calls_to_every_caller(*, stream: bool) -> None:
    model = ScriptedModel(tool_calls(("echo", {})))
    async with gateway(model, [echo()], settings={"tool_calling": {"auto_register": False}}) as client:
        answer = (await ask(client, stream=stream)).document

    assert answer["finish_reason"] == "tool_calls"


@both_modes
async def test_memory_can_be_switched_off_or_replaced(*, stream: bool) -> None:
    memory = InMemoryChatMemory()
    off, own = ScriptedModel(forever="Hi"), ScriptedModel(forever="Hi")
    async with gateway(off, settings={"memory": {"enabled": False}}) as client:
        for text in ("One.", "Two."):
            await ask(client, text, stream=stream, conversation_id="c")
    async with gateway(own, settings={"memory": {"enabled": False}}, memory=memory) as client:
        for text in ("One.", "Two."):
            await ask(client, text, stream=stream, conversation_id="c")

    assert texts(off.prompts[1].messages) == ["Two."]
    assert texts(own.prompts[1].messages) == ["One.", "Two."]
    assert texts(await memory.get("c")) == ["One.", "Two."]


KINDS_OF_A_TURN = [UserMessage, AssistantMessage, ToolMessage, AssistantMessage]


def loop(order: int) -> ToolCallingAdvisor:
    """An owner of the tool loop."""
    return ToolCallingAdvisor(ToolCallingManager(), order=order)


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"tool_calling_advisor": partial(loop, 150)},
        {"tool_calling_advisor": partial(loop, 900)},
        {"advisors": [loop(900)]},
    ],
    ids=["usual loop", "loop outside", "loop inside", "loop among the advisors"],
)
@both_modes
async def test_memory_can_be_set_to_remember_calls_and_results_wherever_the_loop_stands(
    parts: dict[str, Any], *, stream: bool
) -> None:
    memory, model = InMemoryChatMemory(), ScriptedModel(tool_calls(("echo", {})), "Done.")
    inside = {"memory": {"inside_loop": True}}
    async with gateway(model, [echo()], settings=inside, memory=memory, **parts) as client:
        await ask(client, stream=stream, conversation_id="c")

    assert [type(message) for message in await memory.get("c")] == KINDS_OF_A_TURN


@both_modes
async def test_a_memory_advisor_of_ones_own_takes_the_place_of_the_usual_one(*, stream: bool) -> None:
    memory, unused = InMemoryChatMemory(), InMemoryChatMemory()
    model = ScriptedModel(tool_calls(("echo", {})), forever="Hi")
    inside = MemoryAdvisor(memory, order=ToolCallingAdvisor.DEFAULT_ORDER + 10)
    async with gateway(model, [echo()], advisors=[inside], memory=unused) as client:
        await ask(client, "One.", stream=stream, conversation_id="c")
        await ask(client, "Two.", stream=stream, conversation_id="c")

    assert texts(model.prompts[-1].messages) == ["One.", "Two."]
    assert [type(message) for message in (await memory.get("c"))[:4]] == KINDS_OF_A_TURN
    assert await unused.get("c") == ()


# --- advisors


@both_modes
async def test_advisors_come_by_setting_and_by_argument(*, stream: bool) -> None:
    model = ScriptedModel("Hi")
    settings = {"advisors": ["tests.test_main:marking"]}
    async with gateway(model, settings=settings, advisors=[Marking("by argument")]) as client:
        await ask(client, stream=stream)

    assert set(texts(model.prompts[0].messages)) == {"Hello", "by setting", "by argument"}


@both_modes
async def test_the_owner_of_the_tool_loop_can_be_replaced(*, stream: bool) -> None:
    class Counting(ToolCallingAdvisor):
        """Counts the rounds of all turns."""

        rounds = 0

        async def before_call(self, request: ChatRequest) -> ChatRequest:
            Counting.rounds += 1
            return request

    model = ScriptedModel(tool_calls(("echo", {})), "Done.")
    async with gateway(model, [echo()], tool_calling_advisor=lambda: Counting(ToolCallingManager())) as client:
        await ask(client, stream=stream)

    assert Counting.rounds == 2


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("tests.nowhere:make", "No module named 'tests.nowhere'"),
        ("tests.test_main:nothing", "nothing"),
        ("tests.test_main:failing", "LookupError: no word list"),
        ("tests.test_main:no_advisor", "made a object"),
    ],
)
def test_an_advisor_that_cannot_be_made_stops_the_start_with_its_name(factory: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        create_app(Settings(advisors=[factory]), tools=[])

    assert f"advisors: {factory}" in str(caught.value)
    assert said in str(caught.value)


# --- the start


@pytest.mark.parity(50)
def test_two_owners_of_the_tool_loop_stop_the_start() -> None:
    with pytest.raises(ConfigurationError, match="at most one ToolAdvisor"):
        create_app(Settings(), tools=[], advisors=[loop(300), loop(400)])


@pytest.mark.fault("T16")
@pytest.mark.parity(101)
def test_two_tools_of_one_name_stop_the_start() -> None:
    with pytest.raises(ConfigurationError, match="echo"):
        create_app(Settings(), tools=[echo(), echo()])


@pytest.mark.parity(52, 53)
@both_modes
async def test_providers_of_tools_are_asked_when_a_request_comes(*, stream: bool) -> None:
    asked: list[str] = []

    def provider() -> list[object]:
        asked.append("asked")
        return [echo()]

    model = ScriptedModel("Hi")
    async with gateway(model, [provider]) as client:
        assert (await client.get("/readyz")).status_code == 200
        assert asked == []
        await ask(client, stream=stream)

    assert [offered.definition.name for offered in model.prompts[0].options.tools or ()] == ["echo"]


def test_a_package_of_tools_that_is_not_there_stops_the_start() -> None:
    with pytest.raises(ConfigurationError, match="no_such_tools"):
        create_app(Settings(tools={"packages": ["no_such_tools"]}))


@pytest.mark.fault("C02")
@pytest.mark.parametrize(
    ("environ", "arguments", "warned"),
    [
        ({}, ["uvicorn", "--factory", "app.main:create_app"], False),
        ({"WEB_CONCURRENCY": "1"}, [], False),
        ({"WEB_CONCURRENCY": "many"}, [], False),
        ({"WEB_CONCURRENCY": "4"}, [], True),
        ({}, ["uvicorn", "--workers", "2"], True),
        ({}, ["uvicorn", "--workers=2"], True),
        ({}, ["gunicorn", "-w", "3"], True),
        ({}, ["gunicorn", "-w3"], True),
        ({"WEB_CONCURRENCY": "4"}, ["uvicorn", "--workers", "1"], False),
    ],
)
def test_several_workers_that_each_remember_by_themselves_are_warned_of(
    environ: dict[str, str], arguments: list[str], warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    warn_of_lone_memory(environ, arguments)

    assert ("whether a conversation is known will be luck" in caplog.text) is warned


@pytest.mark.fault("C02")
@pytest.mark.parametrize(("memory", "warned"), [(None, True), (InMemoryChatMemory(), False)], ids=["own", "given"])
def test_a_memory_that_is_given_is_taken_for_a_shared_one(
    memory: InMemoryChatMemory | None,
    warned: bool,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WEB_CONCURRENCY", "2")
    monkeypatch.setattr(sys, "argv", ["uvicorn"])
    create_app(Settings(), model=ScriptedModel(), tools=[], memory=memory)

    assert ("2 workers" in caplog.text) is warned


# --- the end


async def test_at_the_end_runs_are_ended_first_and_the_model_is_closed_last() -> None:
    order: list[str] = []

    async def hang(_: str, __: ToolContext) -> str:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            order.append("tool")
        return "never"

    class Closing(ScriptedModel):
        """Says when it is closed."""

        async def aclose(self) -> None:
            order.append("model")

    begun = asyncio.Event()
    model, tool_ = Closing(tool_calls(("hang", {}))), HandWrittenTool("hang", hang)
    app = create_app(Settings(server={"drain": 0}), model=model, tools=[tool_])
    async with opened(app) as (client, _):
        going = asyncio.create_task(ask(client, stream=False))
        await begun.wait()

    assert order == ["tool", "model"]
    assert (await going).status == 503


async def test_an_application_can_be_started_again() -> None:
    app = create_app(Settings(), model=ScriptedModel(forever="Hi"), tools=[])
    for _ in range(2):
        async with serving(app) as client:
            assert (await ask(client, stream=False)).document["content"] == "Hi"


@pytest.mark.fault("K06")
def test_an_application_can_serve_two_event_loops() -> None:
    app = create_app(Settings(), model=ScriptedModel(forever="Hi"), tools=[])

    async def talk() -> object:
        async with serving(app) as client:
            return (await ask(client, stream=True)).document["content"]

    assert [asyncio.run(talk()) for _ in range(2)] == ["Hi", "Hi"]

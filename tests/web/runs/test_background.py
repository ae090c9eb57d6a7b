"""Runs that are begun and left alone: answered at once, read when their caller likes."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from app.chat import ModelUnavailable, UserMessage
from app.providers.scripted import ScriptedModel, tool_calls
from app.web.documents import RunDocument
from tests.support.gates import PATIENCE
from tests.support.hesitant import Hesitant
from tests.support.modes import both_modes
from tests.support.tools import Held, echo
from tests.support.web import ask
from tests.web.runs.conftest import Gateways
from tests.web.runs.following import data_of, ended, following, name_of, problem_of, read

HELLO = {"message": "Hello", "background": True}


async def begin(client: httpx.AsyncClient, **body: Any) -> httpx.Response:
    """Begin a run in the background."""
    return await client.post("/chat", json=HELLO | body)


async def test_the_answer_comes_at_once_and_says_where_the_run_is(gateway: Gateways) -> None:
    reply = Hesitant()
    async with gateway(ScriptedModel(reply)) as client:
        accepted = await begin(client, conversation_id="c")
        run = accepted.json()
        at_its_place = await client.get(accepted.headers["Location"])
        reply.go_on.set()
        await ended(client, run["id"])

    assert accepted.status_code == 202
    assert accepted.headers["Location"] == f"/runs/{run['id']}"
    RunDocument.model_validate(run)
    assert (run["status"], run["conversation_id"], run["ended_at"]) == ("running", "c", None)
    assert (run["answer"], run["problem"]) == (None, None)
    assert at_its_place.json() == run


async def test_it_goes_on_without_a_reader_and_its_answer_is_that_of_a_caller_who_waits(gateway: Gateways) -> None:
    script = (tool_calls(("echo", {"a": 1}), content="Looking"), "Done.")
    async with gateway(ScriptedModel(*script, *script), [echo()]) as client:
        accepted = await begin(client)
        answer = (await ended(client, accepted.json()["id"]))["answer"]
        seen = await read(client, accepted.json()["id"])
        waited_for = (await ask(client, stream=False)).document

    assert data_of(seen[-1]) == answer
    assert (answer["content"], answer["finish_reason"]) == ("Done.", "stop")
    for document in (answer, waited_for):
        document.pop("id")
        document["tool_runs"][0].pop("ms")
    assert answer == waited_for


async def test_readers_may_come_and_go(gateway: Gateways) -> None:
    held = Held()
    async with gateway(ScriptedModel(tool_calls(("held", {})), "Done."), [held.tool]) as client:
        run_id = (await begin(client)).json()["id"]
        await held.begun()
        for _ in range(2):
            async with following(client, run_id) as reader:
                await reader.until_events(2)
        held.let_go.set()
        run = await ended(client, run_id)

    assert (run["status"], held.cancelled) == ("completed", 0)


async def test_its_turn_is_remembered(gateway: Gateways) -> None:
    model = ScriptedModel("Hello yourself.", "Hi again.")
    async with gateway(model) as client:
        await ended(client, (await begin(client, conversation_id="c")).json()["id"])
        await ask(client, "Again?", stream=False, conversation_id="c")

    first, answer, again = model.prompts[1].messages
    assert (first, again) == (UserMessage("Hello"), UserMessage("Again?"))
    assert getattr(answer, "content", None) == "Hello yourself."


async def test_it_can_be_cancelled(gateway: Gateways) -> None:
    held = Held()
    async with gateway(ScriptedModel(tool_calls(("held", {}), content="Looking")), [held.tool]) as client:
        run_id = (await begin(client)).json()["id"]
        await held.begun()
        accepted = await client.post(f"/runs/{run_id}/cancel")
        run = await ended(client, run_id)

    assert accepted.status_code == 202
    assert (run["status"], run["answer"]["finish_reason"], held.cancelled) == ("cancelled", "cancelled", 1)


async def test_what_it_failed_with_is_found_under_the_request_that_began_it(gateway: Gateways) -> None:
    async with gateway(ScriptedModel(ModelUnavailable("the model server is tired", status=503))) as client:
        accepted = await client.post("/chat", json=HELLO, headers={"X-Request-ID": "mine-1"})
        run_id = accepted.json()["id"]
        run = await ended(client, run_id)
        seen = await read(client, run_id)

    assert accepted.status_code == 202
    assert (run["status"], run["answer"]) == ("failed", None)
    assert run["problem"] == data_of(seen[-1])
    assert (run["problem"]["status"], run["problem"]["request_id"]) == (502, "mine-1")
    assert name_of(seen[-1]) == "run.failed"


async def test_a_fault_of_ours_is_no_more_than_its_request_id(gateway: Gateways) -> None:
    async with gateway(ScriptedModel(ZeroDivisionError("secret inner state"))) as client:
        run = await ended(client, (await begin(client)).json()["id"])

    assert (run["problem"]["type"], run["problem"]["status"]) == ("urn:advisor-gateway:internal", 500)
    assert "secret" not in str(run)


async def test_its_deadline_is_an_answer_and_no_problem(gateway: Gateways) -> None:
    async with gateway(ScriptedModel(Hesitant()), settings={"runs": {"deadline": 0.05}}) as client:
        run_id = (await begin(client)).json()["id"]
        run = await ended(client, run_id)
        seen = await read(client, run_id)

    assert (run["status"], run["problem"], run["answer"]["finish_reason"]) == ("completed", None, "deadline")
    assert (name_of(seen[-1]), data_of(seen[-1])) == ("run.completed", run["answer"])


@pytest.mark.parametrize(
    ("path", "body", "place"),
    [
        ("/chat/stream", {}, "background"),
        ("/chat", {"on_disconnect": "cancel"}, "on_disconnect"),
        ("/chat", {"background": "yes"}, "background"),
        ("/chat", {"background": 1}, "background"),
    ],
    ids=["a stream", "a reader to lose", "a word", "a number"],
)
async def test_what_cannot_be_in_the_background_is_refused(
    gateway: Gateways, path: str, body: dict[str, Any], place: str
) -> None:
    model = ScriptedModel()
    async with gateway(model) as client:
        refused = await client.post(path, json=HELLO | body)
        listed = (await client.get("/runs")).json()

    assert problem_of(refused) == (422, "body-invalid")
    assert [error["loc"] for error in refused.json()["errors"]] == [[place]]
    assert (listed["runs"], model.prompts) == ([], [])


@pytest.mark.parametrize("body", [{"background": False}, {"background": None}], ids=["false", "null"])
@both_modes
async def test_who_says_no_is_answered_as_usual(gateway: Gateways, body: dict[str, Any], *, stream: bool) -> None:
    async with gateway(ScriptedModel("Hi")) as client:
        reply = await ask(client, stream=stream, **body)

    assert (reply.status, reply.document["content"]) == (200, "Hi")


async def test_it_is_refused_like_any_other_run(single_gateway: Gateways) -> None:
    reply = Hesitant()
    async with single_gateway(ScriptedModel(reply), settings={"runs": {"max_active": 1}}) as client:
        first = (await begin(client, conversation_id="c")).json()["id"]
        async with asyncio.timeout(PATIENCE):
            await reply.asked.wait()
        full = await begin(client)
        reply.go_on.set()
        await ended(client, first)

    assert problem_of(full) == (503, "gateway-full")
    assert full.headers["Retry-After"] == "1"

"""The gateway before a real model. The protocol is looked at, not the prose: the model is a very small one."""

from __future__ import annotations

import json
import secrets
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPConnection
from itertools import groupby, islice
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.real_model.asking import Event, LlamaServer, Question, events, final_answer, patient_client
from tests.real_model.llama_server import CONTEXT, MODEL
from tests.support.gateway_process import GatewayProcess

pytestmark = pytest.mark.real_model

LONG_STORY = {
    "message": "Tell me a very long story about the sea.",
    "tools": [],
    "options": {"temperature": 0, "max_tokens": 3000},
}


through_both_doors = pytest.mark.parametrize("path", ["/chat", "/chat/stream"])


@dataclass(frozen=True, slots=True)
class Asked:
    """One question and what came of it through both doors."""

    question: Question
    answer: Mapping[str, Any]
    stream: list[Event]


@pytest.fixture(scope="module")
def client(gateway: GatewayProcess) -> Iterator[httpx.Client]:
    with patient_client(gateway) as client:
        yield client


def weather_in_paris() -> Question:
    reading = f"{10 + secrets.randbelow(20)} C, clouds"
    return Question("What is the weather in Paris?", "get_weather", "Paris", "weather", reading)


def time_in_tokyo() -> Question:
    reading = f"{secrets.randbelow(24):02}:{secrets.randbelow(60):02}"
    return Question("What time is it in Tokyo?", "get_time", "Tokyo", "time", reading)


@pytest.fixture(scope="module", params=[weather_in_paris, time_in_tokyo], ids=["weather", "time"])
def asked(request: pytest.FixtureRequest, client: httpx.Client) -> Asked:
    question: Question = request.param()
    answer = final_answer(client, "/chat", question.body())
    with events(client, question.body()) as stream:
        return Asked(question, answer, list(stream))


def test_the_model_asks_for_a_tool_which_is_run_and_answers_in_a_second_round(asked: Asked) -> None:
    answer, question = asked.answer, asked.question

    (run,) = answer["tool_runs"]
    assert (run["round"], run["name"], run["result"]) == (1, question.tool, question.reading)
    assert json.loads(run["arguments"]) == {"city": question.city}
    assert answer["finish_reason"] == "stop"
    assert answer["content"].strip()
    assert answer["tool_calls"] == []
    assert answer["model"] == MODEL
    assert [one["finish_reason"] for one in answer["rounds"]] == ["tool_calls", "stop"]


def test_the_second_round_is_told_the_result_and_usage_is_the_sum(asked: Asked) -> None:
    first, second = (one["usage"] for one in asked.answer["rounds"])

    assert second["input_tokens"] > first["input_tokens"] + first["output_tokens"] // 2
    for key in ("input_tokens", "output_tokens", "total_tokens"):
        assert asked.answer["usage"][key] == first[key] + second[key]


def test_the_stream_tells_the_run_in_its_order(asked: Asked) -> None:
    names = [event.name for event in asked.stream]

    assert [name for name, _ in groupby(names)] == [
        "run.started",
        "round.started",
        "tool_call.started",
        "tool_call.arguments",
        "tool_call.ready",
        "tool_call.result",
        "round.completed",
        "round.started",
        "text.delta",
        "round.completed",
        "run.completed",
    ]
    assert [event.id for event in asked.stream] == [str(number) for number in range(1, len(names) + 1)]
    assert len({event.data["run_id"] for event in asked.stream}) == 1
    assert [event.data["round"] for event in asked.stream if event.name.startswith("round.")] == [1, 1, 2, 2]


def test_the_pieces_of_the_stream_add_up_to_its_answer(asked: Asked) -> None:
    def pieces(name: str) -> list[Mapping[str, Any]]:
        return [event.data for event in asked.stream if event.name == name]

    answer = asked.stream[-1].data
    (ready,), (result,) = pieces("tool_call.ready"), pieces("tool_call.result")
    (run,) = answer["tool_runs"]
    assert len(pieces("text.delta")) > 3
    assert "".join(piece["text"] for piece in pieces("text.delta")) == answer["content"]
    assert len(pieces("tool_call.arguments")) > 3
    assert "".join(piece["text"] for piece in pieces("tool_call.arguments")) == ready["arguments"] == run["arguments"]
    assert ready["call_id"] == result["call_id"] == run["id"]
    assert result["result"] == run["result"] == asked.question.reading


def test_both_doors_give_the_same_answer(asked: Asked) -> None:
    def told_twice(answer: Mapping[str, Any]) -> dict[str, Any]:
        runs = [{key: run[key] for key in ("round", "name", "arguments", "result")} for run in answer["tool_runs"]]
        return {key: answer[key] for key in ("content", "finish_reason", "model", "usage", "rounds")} | {"runs": runs}

    assert told_twice(asked.stream[-1].data) == told_twice(asked.answer)


def test_a_caller_can_drive_the_loop(client: httpx.Client) -> None:
    question = weather_in_paris()
    body = question.body()

    asking = client.post("/chat", json={**body, "tool_calling": False}).json()
    assert asking["finish_reason"] == "tool_calls"
    assert asking["tool_runs"] == []
    assert [call["name"] for call in asking["tool_calls"]] == [question.tool]

    message = {"role": "assistant", "content": asking["content"], "tool_calls": asking["tool_calls"]}
    body["messages"].append(message)
    grown = client.post("/tool-calls", json={key: body[key] for key in ("messages", "tool_context")}).json()
    assert grown["messages"][-1]["content"] == question.reading

    answer = client.post("/chat", json={**body, "messages": grown["messages"], "tool_calling": False}).json()
    assert answer["finish_reason"] == "stop"
    assert answer["content"].strip()


@through_both_doors
def test_a_call_cut_by_the_token_limit_is_not_run(client: httpx.Client, path: str) -> None:
    body = weather_in_paris().body(max_tokens=20)  # the model begins to write a call, and has to stop in it

    answer = final_answer(client, path, body)

    assert answer["finish_reason"] == "length"
    assert answer["tool_runs"] == []
    assert [one["finish_reason"] for one in answer["rounds"]] == ["length"]


@through_both_doors
def test_a_prompt_that_the_server_refuses_is_an_error(client: httpx.Client, path: str) -> None:
    response = client.post(path, json={"message": "word " * (CONTEXT + 100), "tools": []})

    assert response.status_code == httpx.codes.BAD_GATEWAY
    assert response.headers["content-type"] == "application/problem+json"
    assert "context" in response.text


def test_text_arrives_while_the_model_writes_and_leaving_frees_its_slot(
    client: httpx.Client, model_server: LlamaServer
) -> None:
    with events(client, LONG_STORY) as stream:
        deltas = list(islice((event for event in stream if event.name == "text.delta"), 20))
        assert model_server.is_busy
    model_server.wait_until_free(timeout=30)

    assert len(deltas) == 20
    assert model_server.stopped_midway


def test_leaving_a_blocking_request_frees_the_slot_too(
    gateway: GatewayProcess, client: httpx.Client, model_server: LlamaServer
) -> None:
    address = urlsplit(gateway.url)
    connection = HTTPConnection(address.netloc)
    connection.request("POST", "/chat", json.dumps(LONG_STORY), {"Content-Type": "application/json"})
    model_server.wait_until_busy()
    connection.close()
    model_server.wait_until_free(timeout=30)

    assert model_server.stopped_midway
    after = client.post("/chat", json={"message": "Hello!", "tools": [], "options": {"max_tokens": 3}})
    assert after.status_code == httpx.codes.OK, after.text


def test_a_server_that_dies_in_the_middle_is_an_error_and_no_short_answer(
    its_gateway: GatewayProcess, mortal_server: LlamaServer
) -> None:
    with patient_client(its_gateway) as client:
        with events(client, LONG_STORY) as stream:
            assert any(event.name == "text.delta" for event in stream)
            mortal_server.process.signal(signal.SIGKILL)
            last = list(stream)[-1]
        after = client.post("/chat", json={"message": "Hello!"})

    assert last.name == "run.failed"
    assert last.data["status"] == httpx.codes.BAD_GATEWAY
    assert after.status_code == httpx.codes.BAD_GATEWAY

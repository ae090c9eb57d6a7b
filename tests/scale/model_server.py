"""A model server that says what the last message asks it to say, at the pace that it asks for, and counts its calls.

It is run by the gateway's image in a container of its own, by the standard library alone: `model_server.py PORT`.
`GET /calls/NAME` tells of the calls of one script, any other GET that the server is there.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

_USAGE = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
_EXPRESSION = "6 * 7"


class Calls:
    """The calls of each script: how many were begun, answered to the end, and left by their caller before."""

    def __init__(self) -> None:
        self._by_name: defaultdict[str, dict[str, int]] = defaultdict(lambda: {"begun": 0, "answered": 0, "left": 0})

    def of(self, name: str) -> dict[str, int]:
        """Those of one script."""
        return self._by_name[name]


async def _serve(port: int) -> None:
    calls = Calls()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await _exchange(calls, reader, writer)
        writer.close()

    server = await asyncio.start_server(accept, "0.0.0.0", port, backlog=1024)  # noqa: S104 - inside of a container
    await server.serve_forever()


async def _exchange(calls: Calls, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One request and its answer; the connection is not used again."""
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").rstrip().split("\r\n")
    method, path, _ = first.split(" ")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    if method != "POST":
        await _tell(writer, calls.of(path.removeprefix("/calls/")))
        return
    asked = json.loads(body)
    script = json.loads(_questions(asked["messages"])[-1])
    counted = calls.of(script["name"])
    counted["begun"] += 1
    answering = asyncio.ensure_future(_answer(writer, asked, script))
    leaving = asyncio.ensure_future(reader.read(1))
    try:
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        counted["answered" if answering.done() and answering.exception() is None else "left"] += 1
    finally:
        answering.cancel()
        leaving.cancel()


async def _answer(writer: asyncio.StreamWriter, asked: Any, script: Any) -> None:
    messages = asked["messages"]
    calls_tool = script["tool"] and messages[-1]["role"] != "tool"
    if not asked.get("stream"):
        await asyncio.sleep(0 if calls_tool else script["words"] * script["pace"])
        text = None if calls_tool else "".join(_words(messages, script))
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if calls_tool:
            message["tool_calls"] = [_call(json.dumps({"expression": _EXPRESSION}))]
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls_tool else "stop"}
        await _tell(writer, {"id": "c", "object": "chat.completion", "choices": [choice], "usage": _USAGE})
        return
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
    for delta in _tool_deltas() if calls_tool else ({"content": word} for word in _words(messages, script)):
        await _write_chunk(writer, {"index": 0, "delta": delta, "finish_reason": None})
        await asyncio.sleep(script["pace"])
    finish = "tool_calls" if calls_tool else "stop"
    await _write_chunk(writer, {"index": 0, "delta": {}, "finish_reason": finish}, usage=_USAGE)
    writer.write(b"data: [DONE]\n\n")
    await writer.drain()


def _words(messages: list[Any], script: Any) -> Iterator[str]:
    """What a script says: the names of those before it in the conversation, and its own numbered words."""
    for before in _questions(messages)[:-1]:
        yield f"after {json.loads(before)['name']} "
    for number in range(script["words"]):
        yield f"{script['name']}-{number} "


def _questions(messages: list[Any]) -> list[str]:
    return [message["content"] for message in messages if message["role"] == "user"]


def _tool_deltas() -> Iterator[dict[str, Any]]:
    arguments = json.dumps({"expression": _EXPRESSION})
    yield {"tool_calls": [_call("")]}
    for at in range(0, len(arguments), 8):
        yield {"tool_calls": [{"index": 0, "function": {"arguments": arguments[at : at + 8]}}]}


def _call(arguments: str) -> dict[str, Any]:
    return {
        "index": 0,
        "id": "call_1",
        "type": "function",
        "function": {"name": "calculate", "arguments": arguments},
    }


async def _write_chunk(writer: asyncio.StreamWriter, choice: dict[str, Any], **fields: Any) -> None:
    chunk = {"id": "c", "object": "chat.completion.chunk", "choices": [choice], **fields}
    writer.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
    await writer.drain()


async def _tell(writer: asyncio.StreamWriter, document: Any) -> None:
    body = json.dumps(document).encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close"
    writer.write(head.encode() + b"\r\n\r\n" + body)
    await writer.drain()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))

"""The OpenAPI page as a judge: whether a body or a response is what it says."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
from jsonschema import Draft202012Validator

OURS = {
    "cache-control",
    "idempotency-replayed",
    "location",
    "retry-after",
    "x-accel-buffering",
    "x-request-id",
}
"""Headers that no server adds by itself: a response has them only where the page says so."""


class Page:
    """An OpenAPI page.

    Attributes:
        document: what `/openapi.json` gives.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document

    def validator(self, schema: dict[str, Any]) -> Draft202012Validator:
        """Checks values by a schema of the page."""
        return Draft202012Validator({"components": self.document["components"], **schema})

    def body(self, path: str) -> dict[str, Any]:
        """What is said of a route's JSON body: its schema, its examples."""
        content: dict[str, Any] = self.document["paths"][path]["post"]["requestBody"]["content"]["application/json"]
        return content

    def events(self, path: str, method: str) -> dict[str, dict[str, Any]]:
        """The schemas of a stream's events, by their names."""
        stream = self.document["paths"][path][method]["responses"]["200"]["content"]["text/event-stream"]
        return {event["properties"]["event"]["const"]: event for event in stream["schema"]["oneOf"]}

    def check(self, response: httpx.Response) -> None:
        """Refuse a response that the page does not promise: by its status, its headers, its body or an event."""
        method = response.request.method.lower()
        path = self._path(response.request.url.path, method)
        promised = self.document["paths"][path][method]["responses"][str(response.status_code)]
        self._check_headers(promised["headers"], response.headers)
        if "content" not in promised:
            assert response.content == b""
            return
        media_type = response.headers["content-type"].partition(";")[0]
        schema = promised["content"][media_type]["schema"]
        if media_type != "text/event-stream":
            self.validator(schema).validate(response.json())
            return
        schemas = self.events(path, method)
        for event in _events(response.text):
            self.validator(schemas[event["event"]]).validate(event)
            assert event.keys() <= schemas[event["event"]]["properties"].keys()
            data = schemas[event["event"]]["properties"]["data"]["contentSchema"]
            self.validator(data).validate(json.loads(event["data"]))

    def _path(self, asked: str, method: str) -> str:
        """The path of the page that an address belongs to."""
        segments = {"{conversation_id}": ".*"}  # may hold slashes
        (path,) = [
            path
            for path, methods in self.document["paths"].items()
            if re.fullmatch(re.sub(r"{\w+}", lambda name: segments.get(name[0], "[^/]+"), path), asked)
            and method in methods
        ]
        return str(path)

    def _check_headers(self, promised: dict[str, Any], headers: httpx.Headers) -> None:
        said = {name.lower(): header for name, header in promised.items()}
        needed = {name for name, header in said.items() if header.get("required")}
        assert needed <= OURS & headers.keys() <= said.keys()
        for name in OURS & headers.keys():
            schema = said[name]["schema"]
            value = int(headers[name]) if schema.get("type") == "integer" else headers[name]
            self.validator(schema).validate(value)


def _events(text: str) -> list[dict[str, Any]]:
    """The events of a stream with just the fields that each has."""
    events: list[dict[str, Any]] = []
    for block in text.removesuffix("\n\n").split("\n\n"):
        fields = [line.partition(": ") for line in block.split("\n") if not line.startswith(":")]
        events.append({name: int(value) if name == "retry" else value for name, _, value in fields})
    return events

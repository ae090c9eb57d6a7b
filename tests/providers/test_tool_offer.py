"""Tools as JSON: each is written once, and what is kept of that is bounded."""

from __future__ import annotations

import json
from collections.abc import ItemsView
from typing import Any

from app.providers.openai.tool_offer import Offers
from app.providers.profiles import Profile
from app.tooling import ToolDefinition, ToolMetadata


class Counted(dict[str, Any]):
    """A schema that counts how often it is written."""

    written = 0

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]  # what a plain dictionary gives, too
        """What is in it."""
        self.written += 1
        return super().items()


class Offered:
    """A tool that nobody calls."""

    def __init__(self, name: str) -> None:
        self.schema = Counted({"type": "object", "properties": {}})
        self.definition = ToolDefinition(name, f"Does {name}.", self.schema)
        self.metadata = ToolMetadata()

    async def call(self, *_: Any) -> str:
        raise AssertionError("called")


def names(offers: Offers, *tools: Offered, profile: Profile | None = None) -> list[str]:
    """The names of the tools in what is sent."""
    written = json.loads(bytes(offers.encoded(tools, profile or Profile())))
    return [tool["function"]["name"] for tool in written]


def test_a_tool_is_written_once_whatever_it_is_offered_with() -> None:
    offers, one, other = Offers(), Offered("one"), Offered("other")

    offered = [names(offers, one), names(offers, one, other), names(offers, other, one)]

    assert offered == [["one"], ["one", "other"], ["other", "one"]]
    assert [tool.schema.written for tool in (one, other)] == [1, 1]


def test_a_tool_is_written_anew_for_servers_that_want_it_otherwise() -> None:
    offers, one = Offers(), Offered("one")

    for profile in (Profile(), Profile(strict_tools=True), Profile()):
        assert names(offers, one, profile=profile) == ["one"]

    assert one.schema.written == 2


def test_only_so_many_lists_are_kept_and_those_that_are_not_are_written_as_before() -> None:
    offers = Offers()
    lists = [tuple(Offered(f"{number}-{place}") for place in range(2)) for number in range(40)]

    for _ in range(2):
        for tools in lists:
            assert names(offers, *tools) == [tool.definition.name for tool in tools]

    assert len(offers._lists) == 16

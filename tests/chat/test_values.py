"""Values that fill their slots directly are the same as others."""

from __future__ import annotations

import copy
from dataclasses import FrozenInstanceError, dataclass, field, replace
from inspect import signature
from typing import get_type_hints

import pytest

from app.chat import ToolCall
from app.chat.values import made_often


@made_often
@dataclass(frozen=True, slots=True)
class Sounding:
    """One of each kind of field."""

    depth: float
    place: str = "harbour"
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Plain:
    """The same as `dataclass` makes it."""

    depth: float
    place: str = "harbour"
    notes: list[str] = field(default_factory=list)


def test_fields_are_given_by_place_or_by_name_or_left_to_their_defaults() -> None:
    assert Sounding(11.0, "pier", ["low tide"]) == Sounding(notes=["low tide"], place="pier", depth=11.0)
    assert repr(Sounding(11.0)) == "Sounding(depth=11.0, place='harbour', notes=[])"
    assert repr(Sounding(11.0)).replace("Sounding", "Plain") == repr(Plain(11.0))


def test_a_default_that_is_made_is_made_each_time() -> None:
    assert Sounding(11.0).notes is not Sounding(11.0).notes


def test_a_field_cannot_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        Sounding(11.0).depth = 12.0  # type: ignore[misc]  # the point of the test


def test_a_value_can_be_copied_whole_and_with_changes() -> None:
    sounding = Sounding(11.0, notes=["low tide"])

    assert replace(sounding, depth=12.0) == Sounding(12.0, notes=["low tide"])
    assert copy.deepcopy(sounding) == sounding


@pytest.mark.parametrize("wrong", [{}, {"depth": 1.0, "tide": "low"}], ids=["missing", "unknown"])
def test_what_does_not_fit_is_refused_in_the_words_of_any_class(wrong: dict[str, object]) -> None:
    with pytest.raises(TypeError) as plain:
        Plain(**wrong)  # type: ignore[arg-type]  # the point of the test
    with pytest.raises(TypeError) as ours:
        Sounding(**wrong)  # type: ignore[arg-type]  # the point of the test

    assert str(ours.value) == str(plain.value).replace("Plain", "Sounding")


def test_the_annotations_of_its_fields_are_understood_as_those_of_any_class() -> None:
    assert get_type_hints(ToolCall.__init__) == get_type_hints(ToolCall) | {"return": type(None)}
    assert signature(ToolCall, eval_str=True).parameters["id"].annotation is str

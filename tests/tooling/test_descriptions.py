"""What a model is told in words: names, descriptions, and the descriptions of parameters and fields."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import pytest
import typing_extensions
from pydantic import AliasChoices, AliasPath, BaseModel, Field

from app.chat import ConfigurationError, ToolContext
from app.tooling import ToolCallback, ToolParam, input_schema, tool
from app.tooling.docstrings import read_docstring


def described(function: Callable[..., Any]) -> dict[str, str | None]:
    """Descriptions of a function's parameters."""
    return {name: schema.get("description") for name, schema in input_schema(function)["properties"].items()}


def description_of(function: Callable[..., Any], **options: Any) -> str:
    return ToolCallback.from_function(function, **options).definition.description


# Names.


@pytest.mark.parity(103)
@pytest.mark.parametrize("given", [None, "", "  "])
def test_a_tool_is_called_what_its_function_is_called(given: str | None) -> None:
    def high_tide() -> None: ...

    assert ToolCallback.from_function(high_tide, name=given).definition.name == "high_tide"


def test_a_given_name_goes_before_the_function_s() -> None:
    def high_tide() -> None: ...

    assert ToolCallback.from_function(high_tide, name="tide-2").definition.name == "tide-2"


@pytest.mark.parity(104, 105)
@pytest.mark.parametrize(
    "name", ["high tide", "tide@kiel", "tide()", "tide.now", "潮", "gezeiten_für", "x" * 65, "<lambda>"]
)
def test_a_name_that_model_servers_refuse_is_refused_with_its_place(name: str) -> None:
    def high_tide() -> None: ...

    with pytest.raises(ConfigurationError, match=r"test_descriptions\.py:\d+: model servers refuse"):
        ToolCallback.from_function(high_tide, name=name)


def test_names_of_64_letters_digits_dashes_and_underscores_are_fine() -> None:
    def high_tide() -> None: ...

    for name in ("x" * 64, "Tide-2_b", "2", "-"):
        assert ToolCallback.from_function(high_tide, name=name).definition.name == name


# Descriptions of tools.


@pytest.mark.parity(106)
@pytest.mark.parametrize(
    ("name", "words"),
    [("high_tide", "high tide"), ("highTideAt2", "high tide at2"), ("tide", "tide"), ("high-tide", "high tide")],
)
def test_without_a_docstring_the_name_s_words_describe_the_tool(name: str, words: str) -> None:
    assert description_of(lambda: None, name=name) == words
    assert description_of(lambda: None, name=name, description="") == words


def test_a_given_description_goes_before_the_docstring() -> None:
    def tide() -> None:
        """The tide."""

    assert description_of(tide, description="Ebb or flow.") == "Ebb or flow."


def test_a_docstring_describes_the_tool_without_what_is_about_parameters() -> None:
    def tide(harbour: str) -> float:
        """When the next tide is.

        Good for planning.

        Args:
            harbour: where

        Returns:
            Hours from now.

        Raises:
            ValueError: no such harbour.

        Note:
            Only the North Sea has tides.
        """
        raise NotImplementedError

    assert description_of(tide) == (
        "When the next tide is.\n\nGood for planning.\n\nReturns:\n    Hours from now.\n\n"
        "Raises:\n    ValueError: no such harbour.\n\nNote:\n    Only the North Sea has tides."
    )


@pytest.mark.parity(111)
def test_a_method_without_a_docstring_has_that_of_the_one_it_overrides() -> None:
    class Tides:
        def tide(self, harbour: str) -> None:
            """When the tide is.

            Args:
                harbour: where
            """

    class LocalTides(Tides):
        def tide(self, harbour: str) -> None: ...

    assert description_of(LocalTides().tide) == "When the tide is."
    assert described(LocalTides().tide) == {"harbour": "where"}


def test_partial_functions_and_callable_objects_are_described_by_what_they_call() -> None:
    def tide(harbour: str, unit: str) -> None:
        """When the tide is."""

    class Tides:
        """All tides."""

        def __call__(self) -> None:
            """The next tide."""

    class Quiet:
        """Nothing more to say."""

        def __call__(self) -> None: ...

    assert description_of(functools.partial(tide, unit="h")) == "When the tide is."
    assert description_of(Tides()) == "The next tide."
    assert description_of(Quiet()) == "Nothing more to say."
    assert ToolCallback.from_function(Quiet()).definition.name == "Quiet"


# Docstrings, style by style.


@pytest.mark.fault("T07", "T08")
@pytest.mark.parametrize(
    "docstring",
    [
        """When the tide is.

        Args:
            harbour: where, as in: Kiel
            unit (str, optional): of time,
                hours if not said
        """,
        """When the tide is.
        Args:
            harbour: where, as in: Kiel
            unit: of time,
                hours if not said""",
        """Args:
            harbour: where, as in: Kiel
            unit: of time,
                hours if not said

        When the tide is.
        """,
        """
        Parameters:
          harbour: where, as in: Kiel

          unit: of time,
            hours if not said

        When the tide is.
        """,
        """When the tide is.

        Parameters
        ----------
        harbour : str
            where, as in: Kiel
        unit : {"h", "min"}, optional
            of time,
            hours if not said
        """,
        """When the tide is.
        Parameters
        ----------
        harbour
            where, as in: Kiel

        Other Parameters
        ----------------
        unit
            of time,
            hours if not said
        """,
        """When the tide is.

        :param harbour: where, as in: Kiel
        :type harbour: str
        :param str unit: of time,
            hours if not said
        """,
        """When the tide is.
        :param harbour: where, as in: Kiel
        :type harbour: str
        :arg unit: of time,
            hours if not said
        :type unit: str""",
        """:param harbour: where, as in: Kiel

        When the tide is.

        Args:
            unit: of time,
                hours if not said
        """,
    ],
    ids=[
        "google",
        "google-no-blank",
        "google-first",
        "google-other",
        "numpy",
        "numpy-two",
        "sphinx",
        "sphinx-no-blank",
        "mixed",
    ],
)
def test_the_style_of_a_docstring_is_seen_wherever_its_sections_stand(docstring: str) -> None:
    def tide(harbour: str, unit: str = "h") -> None: ...

    tide.__doc__ = docstring

    assert description_of(tide) == "When the tide is."
    assert described(tide) == {"harbour": "where, as in: Kiel", "unit": "of time,\nhours if not said"}


@pytest.mark.fault("T07")
def test_a_docstring_that_is_one_section_only_leaves_the_words_of_the_name() -> None:
    def high_tide(harbour: str) -> None:
        """Args:
        harbour: where
        """

    assert description_of(high_tide) == "high tide"
    assert described(high_tide) == {"harbour": "where"}


@pytest.mark.fault("T08")
def test_sections_of_numpy_and_fields_of_sphinx_that_are_not_about_parameters_stay() -> None:
    numpy = """When the tide is.

    Parameters
    ----------
    harbour
        where

    Returns
    -------
    float
        hours
    """
    sphinx = """When the tide is.

    :param harbour: where
    :returns: hours
    :raises ValueError: no such harbour
    """

    assert read_docstring(numpy).description == "When the tide is.\n\nReturns\n-------\nfloat\n    hours"
    assert read_docstring(sphinx).description == (
        "When the tide is.\n\n:returns: hours\n:raises ValueError: no such harbour"
    )
    assert read_docstring(numpy).parameters == read_docstring(sphinx).parameters == {"harbour": "where"}


@pytest.mark.parametrize(
    "docstring",
    [
        "Say it.\n\nArgs: none",
        "Say it.\n\nParameters:\nnot indented",
        "Say it.\n\nArguments:\n    prose without a colon",
        "Say it.\n\nArgs:",
        "Say it: a list\n\n- x: y",
    ],
)
def test_prose_that_only_looks_like_a_section_is_left_alone(docstring: str) -> None:
    assert read_docstring(docstring).description == docstring
    assert read_docstring(docstring).parameters == {}


def test_markdown_in_a_section_of_parameters_is_understood() -> None:
    text = "Say it.\n\nArgs:\n    - `loud`: how loud\n    * **often**: how often"

    assert read_docstring(text).parameters == {"loud": "how loud", "often": "how often"}


# Descriptions of parameters.


@pytest.mark.parity(137, 138)
def test_tool_param_goes_before_field_and_field_before_the_docstring() -> None:
    def sail(  # noqa: PLR0917 - one of each kind
        a: Annotated[str, ToolParam(description="by ToolParam"), Field(description="by Field")],
        b: Annotated[str, Field(description="by Field"), ToolParam(description="by ToolParam")],
        c: Annotated[str, Field(description="by Field"), "by text"],
        d: Annotated[str, "by text"],
        e: Annotated[str, ToolParam()],
        f: str = Field("x", description="by Field"),
        g: Annotated[str, ToolParam(description="by ToolParam")] | None = None,
        h: Annotated[str, ToolParam(description="by ToolParam", required=False)] = "x",
    ) -> None:
        """Sail.

        Args:
            a: by docstring
            b: by docstring
            c: by docstring
            d: by docstring
            e: by docstring
            f: by docstring
            g: by docstring
        """

    assert described(sail) == {
        "a": "by ToolParam",
        "b": "by ToolParam",
        "c": "by Field",
        "d": "by text",
        "e": "by docstring",
        "f": "by Field",
        "g": "by ToolParam",
        "h": "by ToolParam",
    }


@pytest.mark.parity(137)
def test_tool_param_says_what_is_required() -> None:
    def sail(
        a: Annotated[str, ToolParam(required=False)],
        b: Annotated[str, ToolParam(required=True)] = "x",
        c: Annotated[str | None, ToolParam(required=True)] = None,
        d: Annotated[int, ToolParam(required=False)] = 4,
    ) -> None: ...

    schema = input_schema(sail)

    assert schema["required"] == ["b", "c"]
    assert schema["properties"] == {
        "a": {"type": "string"},
        "b": {"type": "string", "default": "x"},
        "c": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "d": {"type": "integer", "default": 4},
    }


# Descriptions of fields.


class Vessel(BaseModel):
    """Something that floats.

    Attributes:
        name: as painted on the stern
    """

    name: str


class Ship(Vessel):
    """A ship.

    :ivar masts: how many masts
    :ivar draught: from docstring
    """

    masts: int
    draught: Annotated[float, Field(description="from Field")]
    length: Annotated[float, ToolParam(description="from ToolParam", required=False)]
    flag: str = Field("none", validation_alias="flagOf")
    port: str = Field("none", alias="homePort")
    number: int = Field(0, validation_alias=AliasChoices(AliasPath("a", 0), "imo"))


@dataclass
class Anchor:
    """Keeps a ship in its place.

    Parameters
    ----------
    weight : float
        in kilogrammes
    """

    weight: float
    chain: Annotated[float, "in metres"] = 0


@dataclass
class Bare:
    weight: float


class Base(typing_extensions.TypedDict):
    """Base.

    Args:
        lat: degrees north
    """

    lat: float


class Place(Base):
    """A place.

    Args:
        lon: degrees east
    """

    lon: float


class Mark(typing.TypedDict):
    """A mark.

    Args:
        colour: red or green
    """

    colour: Annotated[str, ToolParam(required=False)]


class Spot(NamedTuple):
    """A spot.

    Args:
        x: to the right
    """

    x: int


class Unspoken(NamedTuple):
    x: int


class Fleet:
    class _Hidden(BaseModel):
        """Hidden.

        Args:
            depth: how deep
        """

        depth: int

    @staticmethod
    def count(it: _Hidden) -> None: ...


@pytest.mark.parity(138, 141)
@pytest.mark.parametrize(
    ("cls", "description", "fields"),
    [
        (
            Ship,
            "A ship.",
            {
                "name": "as painted on the stern",
                "masts": "how many masts",
                "draught": "from Field",
                "length": "from ToolParam",
                "flagOf": None,
                "homePort": None,
                "imo": None,
            },
        ),
        (Anchor, "Keeps a ship in its place.", {"weight": "in kilogrammes", "chain": "in metres"}),
        (Bare, None, {"weight": None}),
        (Place, "A place.", {"lat": "degrees north", "lon": "degrees east"}),
        (Mark, "A mark.", {"colour": "red or green"}),
        (Spot, "A spot.", {"x": "to the right"}),
        (Unspoken, None, {"x": None}),
        (Fleet._Hidden, "Hidden.", {"depth": "how deep"}),
    ],
)
def test_fields_are_described_by_their_annotations_and_by_docstrings_of_their_classes(
    cls: type, description: str | None, fields: dict[str, str | None]
) -> None:
    def use(it: Any) -> None: ...

    use.__annotations__["it"] = cls
    schema = input_schema(use)["properties"]["it"]

    assert schema.get("description") == description
    assert {name: field.get("description") for name, field in schema["properties"].items()} == fields


def test_what_is_said_of_a_parameter_goes_before_what_is_said_of_its_type() -> None:
    def moor(at: Place, with_: Anchor | None = None) -> None:
        """Moor.

        Args:
            at: where to moor
        """

    assert described(moor) == {"at": "where to moor", "with_": "Keeps a ship in its place."}


@pytest.mark.parity(137)
def test_fields_too_can_be_said_not_to_be_required() -> None:
    def use(ship: Ship, mark: Mark) -> None: ...

    properties = input_schema(use)["properties"]

    assert properties["ship"]["required"] == ["name", "masts", "draught"]
    assert properties["ship"]["properties"]["length"] == {"type": "number", "description": "from ToolParam"}
    assert "required" not in properties["mark"]


def test_types_that_a_static_method_s_class_defines_are_found() -> None:
    assert input_schema(Fleet.count)["properties"]["it"]["properties"]["depth"]["description"] == "how deep"


def test_options_of_the_decorator_describe_the_tool() -> None:
    @tool(name="tide", description="Ebb or flow.")
    def high_tide(context: ToolContext) -> None: ...

    definition = ToolCallback.from_function(high_tide).definition

    assert (definition.name, definition.description) == ("tide", "Ebb or flow.")
    assert definition.input_schema["properties"] == {}

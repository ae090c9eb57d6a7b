"""Finding tools at start-up."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from app.chat import ConfigurationError, ToolContext
from app.tooling import ToolCallback, ToolThreads, discover
from tests.support.tools import HandWrittenTool

NAMES = ("harbour", "elsewhere")


class Folder:
    """A folder on the import path in which a test writes modules."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, **modules: str) -> None:
        """Write modules; `__` in a name stands for a step down, `harbour__pilots` is `harbour/pilots.py`."""
        for name, text in modules.items():
            file = self.path / f"{name.replace('__', '/')}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(dedent(text))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    yield Folder(tmp_path)
    for module in [name for name in sys.modules if name.partition(".")[0] in NAMES]:
        del sys.modules[module]


def marked(*names: str) -> str:
    return "from app.tooling import tool\n" + "".join(
        f"@tool\ndef {name}() -> str:\n    return '{name}'\n" for name in names
    )


def found(*packages: str) -> list[str]:
    return [tool.definition.name for tool in discover(packages)]


def problems(*packages: str) -> list[str]:
    with pytest.raises(ConfigurationError) as refused:
        discover(packages)
    heading, *lines = str(refused.value).split("\n- ")
    assert heading == "the tools cannot be registered:"
    return lines


def init(folder: Folder, package: str, text: str = "") -> None:
    file = folder.path / package.replace(".", "/") / "__init__.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


async def test_a_package_s_own_init_and_all_modules_below_it_are_searched(folder: Folder) -> None:
    init(folder, "harbour", marked("own"))
    init(folder, "harbour.quay", marked("quay"))
    init(folder, "harbour.quay.deep", "")
    folder.write(
        harbour__b=marked("second", "third"),
        harbour__a=marked("first"),
        harbour___private=marked("private"),
        harbour__quay__deep__down=marked("down"),
        harbour__no_init__here=marked("here"),
        elsewhere=marked("not_searched"),
    )
    (folder.path / "harbour/__main__.py").write_text("raise SystemExit(3)")
    (folder.path / "harbour/data").mkdir()
    (folder.path / "harbour/data/notes.txt").write_text("no module")

    assert found("harbour") == ["own", "private", "first", "second", "third", "here", "quay", "down"]
    assert [await tool.call("", ToolContext()) for tool in discover(["harbour"])][:2] == ["own", "private"]


def test_a_single_module_can_be_named_and_what_is_named_twice_is_searched_once(folder: Folder) -> None:
    init(folder, "harbour")
    folder.write(harbour__a=marked("first"), elsewhere=marked("other"))

    assert found("elsewhere") == ["other"]
    assert found("harbour", "harbour.a", "elsewhere", "harbour") == ["first", "other"]
    assert found() == []


def test_only_what_is_marked_is_found(folder: Folder) -> None:
    init(folder, "harbour", marked("tide") + "def helper(): ...\nclass Thing: ...\nNUMBER = 3\n")

    assert found("harbour") == ["tide"]


@pytest.mark.fault("T16")
def test_what_a_sibling_imports_or_has_under_two_names_is_registered_once(folder: Folder) -> None:
    init(folder, "harbour", "from harbour.a import first\n")
    folder.write(
        harbour__a=marked("first") + "alias = first\n",
        harbour__b="from harbour.a import first\nfrom harbour import a\n",
    )

    assert found("harbour") == ["first"]


def test_a_tool_made_by_a_sibling_s_factory_is_found(folder: Folder) -> None:
    init(folder, "harbour")
    folder.write(
        harbour___make="""
            from app.tooling import tool

            def make(name):
                @tool(name=name)
                def made() -> str:
                    return name
                return made
            """,
        harbour__a="from harbour._make import make\nred, green = make('red'), make('green')\n",
    )

    assert found("harbour") == ["red", "green"]


def test_a_tool_imported_from_elsewhere_is_not_offered_and_the_log_says_so(
    folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    init(folder, "harbour", "from elsewhere import dangerous\n")
    folder.write(elsewhere=marked("dangerous"))

    with caplog.at_level(logging.WARNING):
        assert found("harbour") == []
    assert "harbour imports the tool dangerous from elsewhere, which is not searched" in caplog.text
    assert found("harbour", "elsewhere") == ["dangerous"]


def test_tools_made_in_code_partial_functions_and_objects_with_tools_are_found(folder: Folder) -> None:
    folder.write(
        elsewhere="""
            from app.tooling import tool

            class Lamps:
                def __init__(self, port):
                    self.port = port

                @tool
                def light(self) -> int:
                    return self.port
            """,
        harbour="""
            import functools
            from app.tooling import ToolCallback, ToolDefinition, tool
            from elsewhere import Lamps

            def depth(unit: str) -> str:
                return unit

            depth_tool = ToolCallback.from_function(depth)
            by_hand = ToolCallback.from_definition(ToolDefinition("by_hand", ""), lambda arguments: 1)
            in_metres = tool(name="in_metres")(functools.partial(depth, unit="m"))
            _lamps = lamps = Lamps(3)
            nested = [ToolCallback.from_function(depth, name="not_looked_for")]
            """,
    )

    assert found("harbour") == ["depth", "by_hand", "in_metres", "light"]


async def test_an_own_kind_of_tool_is_found(folder: Folder) -> None:
    folder.write(harbour="from tests.support.tools import echo\nmine = echo('mine')\n")

    (mine,) = discover(["harbour"])

    assert isinstance(mine, HandWrittenTool)


def test_classes_are_toolsets_by_themselves_only_where_no_object_is_needed(folder: Folder) -> None:
    folder.write(
        harbour="""
            from app.tooling import tool

            class Signals:
                @tool
                @staticmethod
                def flag() -> str:
                    return "red"

                @classmethod
                @tool
                def horn(cls) -> str:
                    return "long"

            class Base:
                @tool
                def light(self) -> str:
                    return "on"

            class Lamps(Base):
                @tool
                @staticmethod
                def count() -> int:
                    return 3

            lamps = Lamps()
            """
    )

    assert found("harbour") == ["flag", "horn", "light", "count"]


def test_a_class_with_tools_of_which_there_is_no_object_stops_the_start(folder: Folder) -> None:
    folder.write(
        harbour="""
            from app.tooling import tool

            class Lamps:
                @tool
                def light(self) -> str:
                    return "on"
            """
    )

    (problem,) = problems("harbour")

    assert problem == (
        "harbour.py:5: Lamps.light is a tool, but no module searched has an object of its class: "
        "add one, as in `lamps = Lamps(…)`"
    )


def test_tools_that_are_not_offered_by_default_are_found_and_say_so(folder: Folder) -> None:
    folder.write(harbour=marked("safe") + "@tool(default=False)\ndef dangerous() -> None: ...\n")

    assert {tool.definition.name: tool.metadata.default for tool in discover(["harbour"])} == {
        "safe": True,
        "dangerous": False,
    }


async def test_tools_run_in_the_threads_given(folder: Folder) -> None:
    folder.write(harbour="import threading\n" + marked("a") + "@tool\ndef b() -> str:\n    return a()\n")
    threads = ToolThreads(1)

    assert [await tool.call("", ToolContext()) for tool in discover(["harbour"], threads=threads)] == ["a", "a"]


def test_a_tool_says_where_it_is_defined(folder: Folder) -> None:
    init(folder, "harbour")
    folder.write(harbour__a=marked("first"))

    (first,) = discover(["harbour"])

    assert isinstance(first, ToolCallback)
    assert first.source == "harbour/a.py:2"


def test_things_that_dislike_being_looked_at_do_no_harm(folder: Folder) -> None:
    folder.write(
        harbour=marked("first")
        + dedent(
            """
            class Shy:
                def __getattribute__(self, name):
                    raise RuntimeError("outside of a request")

            shy = Shy()
            """
        )
    )

    assert found("harbour") == ["first"]


# What stops the start.


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import nothing_like_this\n", "ModuleNotFoundError: No module named 'nothing_like_this' (harbour/bad.py:1)"),
        ("\ndef f(:\n", "SyntaxError: invalid syntax (harbour/bad.py:2)"),
        ("raise SystemExit(2)\n", "SystemExit: 2 (harbour/bad.py:1)"),
        ("import sys\n\nsys.exit('bye')\n", "SystemExit: bye (harbour/bad.py:3)"),
        ("1 / 0\n", "ZeroDivisionError: division by zero (harbour/bad.py:1)"),
        ("import harbour.worse\n", "KeyError: 'x' (harbour/worse.py:1)"),
        ("from app.tooling import tool\ntool(3)\n", "ConfigurationError: @tool is for functions, not for 3; "),
    ],
)
def test_a_module_that_cannot_be_imported_is_told_with_what_happened_and_where(
    folder: Folder, text: str, told: str
) -> None:
    init(folder, "harbour")
    folder.write(
        harbour__bad=text, harbour__good=marked("good"), **{"harbour__worse": "{}['x']\n"} if "worse" in text else {}
    )

    first = problems("harbour")[0]

    assert first.startswith("harbour.bad cannot be imported: ")
    assert told in first


@pytest.mark.parametrize("name", ["harbour", "harbour.quay", "tools/weather.py", "", ".quay"])
def test_a_package_that_there_is_not_is_told_by_its_name(folder: Folder, name: str) -> None:
    (problem,) = problems(name)

    assert problem.startswith(f"{name} cannot be imported: ")


def test_an_interrupted_import_is_not_swallowed(folder: Folder) -> None:
    folder.write(harbour="raise KeyboardInterrupt\n")

    with pytest.raises(KeyboardInterrupt):
        discover(["harbour"])


@pytest.mark.parity(107)
@pytest.mark.fault("T16")
def test_two_tools_of_one_name_in_two_modules_are_told_with_both_places(folder: Folder) -> None:
    init(folder, "harbour")
    folder.write(harbour__a=marked("tide"), harbour__b="\n" + marked("tide"))

    (problem,) = problems("harbour")

    assert problem.startswith("2 tools are called 'tide': harbour/a.py:2, harbour/b.py:3.")


@pytest.mark.parity(107, 109)
@pytest.mark.fault("T16")
def test_all_problems_are_told_at_once(folder: Folder) -> None:
    init(folder, "harbour")
    folder.write(
        harbour__a=marked("tide"),
        harbour__b="1 / 0\n",
        harbour__c=marked("tide"),
        harbour__d="""
            from collections.abc import Callable
            from app.tooling import tool

            @tool
            def call_back(on_tide: Callable[[], None]) -> None: ...

            @tool(name="high tide")
            def high_tide() -> None: ...

            @tool
            def fine() -> None: ...
            """,
    )

    told = problems("harbour", "missing")

    assert len(told) == 5
    assert told[0].startswith("harbour.b cannot be imported: ZeroDivisionError")
    assert told[1].startswith("missing cannot be imported: there is no module of that name")
    assert told[2].startswith("harbour/d.py:5: call_back has a parameter 'on_tide' of type collections.abc.Callable")
    assert told[3].startswith("harbour/d.py:8: model servers refuse 'high tide'")
    assert told[4].startswith("2 tools are called 'tide': harbour/a.py:2, harbour/c.py:2")

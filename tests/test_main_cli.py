"""`python -m app`: what is printed, and the exit code."""

from __future__ import annotations

import importlib
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.__main__ import main
from tests.support.loggers import logging_as_before

KEY = "sk-test-never-shown"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder without any settings; signals and logging are as before afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("GATEWAY_CONFIG_DIR", raising=False)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    with logging_as_before():
        yield tmp_path
    for number, handler in handlers.items():
        signal.signal(number, handler)


def write_tools(folder: Path, name: str, code: str) -> None:
    (folder / f"{name}.py").write_text(f"from app.tooling import tool\n\n\n{code}")


TWO_TOOLS = '''
@tool
def greet(name: str) -> str:
    """Say hello to someone.

    And never more than hello.
    """
    return f"Hello, {name}"


@tool(default=False)
def erase(path: str) -> str:
    """Erase a file for good, which is not what anyone should do without having thought about it for a good while."""
    return "gone"
'''


def test_help_names_the_commands_and_where_settings_come_from(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--help"])

    shown = capsys.readouterr().out
    assert left.value.code == 0
    for word in ("serve", "check", "GATEWAY_MODEL__BASE_URL", "gateway.toml", ".env"):
        assert word in shown


@pytest.mark.parametrize("line", [[], ["fly"], ["serve", "--prot", "1"], ["serve", "--port", "x"], ["serve", "--po=1"]])
def test_a_wrong_command_line_is_exit_code_two(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(line)

    assert left.value.code == 2
    assert "usage: python -m app" in capsys.readouterr().err


def test_check_shows_the_tools_with_their_source(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tools(folder, "two_tools", TWO_TOOLS)
    monkeypatch.setenv("GATEWAY_TOOLS__PACKAGES", '["two_tools"]')

    code = main(["check"])

    assert code == 0
    assert capsys.readouterr().out.splitlines() == [
        "Model: demo",
        "Tools: 2",
        "NAME   DEFAULT  SOURCE           DESCRIPTION",
        "greet  yes      two_tools.py:5   Say hello to someone.",
        "erase  no       two_tools.py:14  Erase a file for good, which is not what anyone should do without...",
    ]


def test_check_says_loudly_that_the_demo_model_answers(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tools(folder, "no_tools", "")
    monkeypatch.setenv("GATEWAY_TOOLS__PACKAGES", '["no_tools"]')

    assert main(["check"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "Model: demo\nTools: 0\n"
    assert "No model is configured" in captured.err


def test_check_names_the_configured_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tools(folder, "no_tools_either", "")
    monkeypatch.setenv("GATEWAY_TOOLS__PACKAGES", '["no_tools_either"]')
    monkeypatch.setenv("GATEWAY_MODEL__BASE_URL", "http://localhost:1/v1")
    monkeypatch.setenv("GATEWAY_MODEL__NAME", "tiny")

    assert main(["check"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "Model: tiny\nTools: 0\n"
    assert captured.err == ""


@pytest.mark.parametrize("command", ["check", "serve"])
def test_every_problem_of_the_settings_is_printed_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    monkeypatch.setenv("GATEWAY_ADVISOR", KEY)
    monkeypatch.setenv("GATEWAY_SERVER__PORT", "http")

    assert main([command]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "The settings are not usable:",
        "  GATEWAY_SERVER__PORT (environment): must be a valid integer, unable to parse string as an integer",
        "  GATEWAY_ADVISOR (environment): unknown; the nearest known name is GATEWAY_ADVISORS",
    ]


@pytest.mark.parametrize("command", ["check", "serve"])
def test_a_tool_that_cannot_work_is_printed_with_its_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    write_tools(folder, f"broken_{command}", "raise RuntimeError('half written')\n")
    monkeypatch.setenv("GATEWAY_TOOLS__PACKAGES", f'["broken_{command}"]')

    assert main([command]) == 1
    assert f"broken_{command}.py" in capsys.readouterr().err


def test_a_folder_of_tools_that_loses_to_an_installed_package_is_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for place, name in (("here", "mine"), ("installed", "shipped")):
        (folder / place / "lost_tools").mkdir(parents=True)
        write_tools(folder / place / "lost_tools", name, "")
    (folder / "installed" / "lost_tools" / "__init__.py").touch()
    monkeypatch.chdir(folder / "here")
    monkeypatch.syspath_prepend(str(folder / "installed"))
    monkeypatch.syspath_prepend(str(folder / "here"))
    monkeypatch.setenv("GATEWAY_TOOLS__PACKAGES", '["lost_tools"]')

    assert main(["check"]) == 1
    assert "add an empty lost_tools/__init__.py" in capsys.readouterr().err

    (folder / "here" / "lost_tools" / "__init__.py").touch()
    sys.modules.pop("lost_tools")
    importlib.invalidate_caches()
    assert main(["check"]) == 0


def test_a_broken_logging_file_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "config").mkdir()
    (folder / "config" / "logging.toml").write_text("version = 2\n")

    assert main(["check"]) == 1
    assert capsys.readouterr().err.startswith("config/logging.toml is not usable: ")


@pytest.mark.server
def test_arguments_of_serve_are_stronger_than_the_environment(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tools(folder, "none_at_all", "")
    monkeypatch.setenv("GATEWAY_TOOLS__PACKAGES", '["none_at_all"]')
    monkeypatch.setenv("GATEWAY_SERVER__HOST", "no.such.host.invalid")
    monkeypatch.setenv("GATEWAY_SERVER__PORT", "1")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        assert main(["serve", "--host", "127.0.0.1", "--port", str(port)]) == 1

    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"cannot listen on 127.0.0.1, port {port}: is it in use? ")


def test_a_port_out_of_range_is_an_error_of_the_argument(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--port", "70000"]) == 1
    assert "server.port (argument): must be less than or equal to 65535" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["migrate"], "The memory is in the process: there is nothing to bring up to date.\n"),
        (["prune", "--older-than", "3"], "The memory is in the process: there is nothing to forget.\n"),
    ],
)
def test_where_the_memory_is_in_the_process_there_is_nothing_to_do(
    line: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(line) == 0
    assert capsys.readouterr().out == said


def test_migrate_makes_a_file_and_prune_takes_its_age_from_the_settings_or_the_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("GATEWAY_MEMORY__URL")
    assert main(["migrate"]) == 0
    assert (folder / "data" / "gateway.db").is_file()
    assert main(["prune"]) == 1
    captured = capsys.readouterr()
    assert captured.out == "The memory's database has the tables of 0002.\n"
    assert captured.err == "say how old: --older-than DAYS, or GATEWAY_MEMORY__KEEP_DAYS\n"

    monkeypatch.setenv("GATEWAY_MEMORY__KEEP_DAYS", "30")
    assert main(["prune"]) == 0
    assert main(["prune", "--older-than", "0.5"]) == 0
    assert capsys.readouterr().out == "Forgot 0 conversations.\n" * 2


@pytest.mark.parametrize("days", ["-1", "nan", "inf", "1e9", "soon"])
def test_prune_takes_no_age_that_is_none(days: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["prune", f"--older-than={days}"])

    assert left.value.code == 2
    assert capsys.readouterr().err.endswith("argument --older-than: must be a number of days, from 0 to 36500\n")


@pytest.mark.parametrize("line", [["migrate"], ["prune", "--older-than", "3"], ["check"]])
def test_a_memory_that_cannot_be_used_is_told_in_the_last_line(
    line: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tools(folder, "no_tools_here", "")
    (folder / "diary").write_text("Dear diary, " * 100)
    monkeypatch.setenv("GATEWAY_TOOLS__PACKAGES", '["no_tools_here"]')
    monkeypatch.setenv("GATEWAY_MEMORY__URL", "diary")

    assert main(line) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[-1].startswith("the memory's file diary cannot be used: DatabaseError: ")

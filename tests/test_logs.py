"""Logging: the shipped file, the default without it, and what never gets into a line."""

from __future__ import annotations

import logging
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.chat import ConfigurationError
from app.logs import DEFAULT, LineFormatter, NoProbes, configure_logging
from app.providers.scrubbing import Scrubber
from tests.support.loggers import logging_as_before

REPOSITORY = Path(__file__).parents[1]
KEY = "sk-test-never-shown"


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    with logging_as_before():
        yield


def configure(file: Path, level: str | None = None) -> None:
    configure_logging(file, level=level, scrub=Scrubber([KEY]))


def test_the_shipped_file_is_what_is_used_without_one() -> None:
    assert tomllib.loads((REPOSITORY / "config" / "logging.toml").read_text(encoding="utf-8")) == DEFAULT


def test_a_line_names_its_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(tmp_path / "logging.toml")

    logging.getLogger("app.anything").info("said")

    assert capsys.readouterr().err.endswith("INFO app.anything [-] said\n")


@pytest.mark.parametrize("datefmt", [None, "%H.%M"])
def test_times_are_those_that_the_standard_formatter_writes(datefmt: str | None) -> None:
    form = "%(asctime)s %(message)s"
    ours, theirs = LineFormatter(form, datefmt), logging.Formatter(form, datefmt)
    moments = [0.0, 0.9996, 0.25, 1_790_000_000.001, 1_790_000_000.999, 1_790_000_001.0, 1_790_000_000.5]
    records = [logging.makeLogRecord({"created": moment, "msecs": moment % 1 * 1000}) for moment in moments]

    assert [ours.format(record) for record in records] == [theirs.format(record) for record in records]


@pytest.mark.fault("X01", "X02")
def test_a_key_is_taken_out_of_every_line_and_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(tmp_path / "logging.toml")

    logging.getLogger("some.library").warning("headers: %s", {"Authorization": f"Bearer {KEY}"})
    logging.getLogger("some.library").error("failed", exc_info=RuntimeError(f"refused: {KEY}"))

    lines = capsys.readouterr().err
    assert "RuntimeError: refused: ***" in lines
    assert KEY not in lines


@pytest.mark.fault("X02")
@pytest.mark.parametrize(
    "library",
    ["openai._base_client", "httpx", "httpx2", "httpcore.http11", "sqlalchemy.engine.Engine", "alembic"],
)
def test_libraries_that_log_whole_requests_stay_quiet_at_debug(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], library: str
) -> None:
    configure(tmp_path / "logging.toml", "debug")

    logging.getLogger(library).debug("a request")
    logging.getLogger("app").debug("a step")

    lines = capsys.readouterr().err
    assert "a step" in lines
    assert "a request" not in lines


def test_a_file_of_the_operator_is_used_and_its_level_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "logging.toml"
    file.write_text('version = 1\n[handlers.plain]\nclass = "logging.StreamHandler"\n[root]\nhandlers = ["plain"]\n')

    configure(file)
    logging.getLogger("app").warning("no form but the key %s", KEY)

    assert capsys.readouterr().err == "no form but the key ***\n"


def test_the_level_of_the_settings_is_stronger_than_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(tmp_path / "logging.toml", "error")

    logging.getLogger("app").warning("not worth it")

    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("version = \n", "Invalid value"),
        ("x = 1\n", "version"),
        ('version = 1\n[root]\nhandlers = ["none"]\n', "root"),
        ('version = 1\n[handlers.a]\nclass = "logging.NoHandler"\n', "Unable to configure handler 'a': Cannot resolve"),
    ],
)
def test_a_file_that_is_no_configuration_is_named(tmp_path: Path, content: str, reason: str) -> None:
    file = tmp_path / "logging.toml"
    file.write_text(content)

    with pytest.raises(ConfigurationError, match=reason) as caught:
        configure(file)
    assert str(caught.value).startswith(f"{file} is not usable: ")


@pytest.mark.parametrize(
    ("method", "path", "status", "logged"),
    [
        ("GET", "/healthz", 200, False),
        ("GET", "/readyz", 200, False),
        ("GET", "/readyz", 503, True),
        ("POST", "/chat", 200, True),
    ],
)
def test_only_good_answers_to_probes_are_left_out_of_the_access_log(
    method: str, path: str, status: int, logged: bool
) -> None:
    args = ("127.0.0.1:4000", method, path, "1.1", status)
    record = logging.LogRecord("uvicorn.access", logging.INFO, "", 0, '%s - "%s %s HTTP/%s" %d', args, None)

    assert NoProbes().filter(record) is logged

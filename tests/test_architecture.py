"""Conventions that no other tool holds: what is promised of the code as a whole is a check."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from app.settings import Settings
from app.settings_sources import fields

REPOSITORY = Path(__file__).parents[1]
FOLDERS = ("app", "benchmarks", "tools", "tests")
CODE = [path for folder in FOLDERS for path in sorted((REPOSITORY / folder).rglob("*.py"))]
OURS = [path for path in CODE if "tests" not in path.relative_to(REPOSITORY).parts]
LONGEST = 330
VAGUE = {"utils", "util", "helper", "helpers", "misc", "common", "base", "core"}
SILENCED = re.compile(r"#\s*(noqa|type:\s*ignore|pragma:\s*no)")
WITH_REASON = re.compile(r"#\s*(noqa: [A-Z]+\d+(, ?[A-Z]+\d+)*|type: ignore\[[\w, -]+\]|pragma: no \w+)\s+(#|-) \S+")


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """The syntax of a file."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def named(path: Path) -> str:
    return path.relative_to(REPOSITORY).as_posix()


def test_files_are_short_enough_to_be_read_at_one_go() -> None:
    lengths = {named(path): path.read_text(encoding="utf-8").count("\n") for path in OURS}

    assert {name: length for name, length in lengths.items() if length > LONGEST} == {}


def test_no_file_has_a_name_that_says_nothing() -> None:
    assert [named(path) for path in CODE if path.stem in VAGUE or path.parent.name in VAGUE] == []


def test_every_silenced_check_has_its_reason_beside_it() -> None:
    bare = [
        f"{named(path)}:{number}: {line.strip()}"
        for path in CODE
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if SILENCED.search(line) and not WITH_REASON.search(line) and path != Path(__file__)
    ]

    assert bare == []


def test_every_folder_with_code_is_a_package() -> None:
    folders = {path.parent for path in CODE}

    assert [named(folder) for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


def test_middleware_is_plain_asgi() -> None:
    users = [named(path) for path in OURS if "BaseHTTPMiddleware" in path.read_text(encoding="utf-8")]

    assert users == [], "it hides disconnects and breaks context variables"


def _sleeps(path: Path) -> Iterator[int]:
    for node in nodes(path):
        match node:
            case ast.Call(func=ast.Attribute(attr="sleep") | ast.Name(id="sleep"), args=[ast.Constant(value=0)]):
                continue
            case ast.Call(func=ast.Attribute(attr="sleep") | ast.Name(id="sleep")):
                yield node.lineno


def test_no_test_sleeps() -> None:
    tests = [path for path in CODE if path.name.startswith("test_")]

    assert [f"{named(path)}:{line}" for path in tests for line in _sleeps(path)] == []


def test_every_test_is_named_by_a_sentence() -> None:
    names = [
        f"{named(path)}::{node.name}"
        for path in CODE
        for node in nodes(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]

    assert [name for name in names if name.partition("::")[2].count("_") < 3] == []


def test_every_setting_is_read_where_the_gateway_is_put_together() -> None:
    wiring = [REPOSITORY / "app" / name for name in ("main.py", "commands.py", "settings_models.py", "startup.py")]
    read = {node.attr for path in wiring for node in nodes(path) if isinstance(node, ast.Attribute)}
    read_elsewhere = {
        **dict.fromkeys([("model", "api_key_file"), ("memory", "url_file"), ("redis", "url_file")], "by its validator"),
        ("model", "profile"): "as a whole",
    }

    unread = [key for key, _ in fields(Settings) if key[-1] not in read and key[:2] not in read_elsewhere]
    assert unread == []


IMPORTS = """
import importlib, pkgutil, sys
import app.main
print(*{name.partition('.')[0] for name in sys.modules})
for module in pkgutil.walk_packages(app.__path__, "app."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
print(*{name.partition('.')[0] for name in sys.modules})
"""


@pytest.fixture(scope="module")
def imported() -> list[set[str]]:
    """The packages that are there in an empty environment after `import app.main`, and after all modules of ours."""
    done = subprocess.run(  # noqa: S603 - our own command
        [sys.executable, "-c", IMPORTS], cwd=REPOSITORY, env={}, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return [set(line.split()) for line in done.stdout.splitlines()]


def test_every_module_can_be_imported_in_an_empty_environment_and_none_imports_the_users_tools(
    imported: list[set[str]],
) -> None:
    assert "app" in imported[1]
    assert "tools" not in imported[1]


def test_what_takes_long_to_import_is_not_imported_before_it_is_needed(imported: list[set[str]]) -> None:
    assert "app" in imported[0]
    assert imported[0].isdisjoint({"openai", "sqlalchemy", "alembic", "asyncpg", "redis"})
    assert {"sqlalchemy", "alembic", "redis"} <= imported[1]


@pytest.mark.parametrize(
    ("lock", "groups"),
    [
        ("requirements.lock", []),
        ("requirements-dev.lock", ["dev"]),
        ("requirements-real-model.lock", ["real-model"]),
    ],
)
def test_the_lock_has_what_the_project_asks_for(lock: str, groups: list[str]) -> None:
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*([] if groups == ["real-model"] else settings["project"]["dependencies"])]
    for group in groups:
        wanted += settings["dependency-groups"][group]
    text = (REPOSITORY / lock).read_text(encoding="utf-8")
    locked = dict(re.findall(r"^([\w.-]+)==([\w.!+]+)", text, re.MULTILINE))

    for line in wanted:
        requirement = Requirement(line)
        version = locked.get(canonicalize_name(requirement.name))
        assert version is not None, f"{requirement.name} is not in {lock}: run `make lock`"
        assert requirement.specifier.contains(version), f"{lock} has {requirement.name} {version}: run `make lock`"


def test_both_locks_agree() -> None:
    versions = [
        dict(re.findall(r"^([\w.-]+)==([\w.!+]+)", (REPOSITORY / lock).read_text(encoding="utf-8"), re.MULTILINE))
        for lock in ("requirements.lock", "requirements-dev.lock")
    ]

    assert versions[0].items() <= versions[1].items()


def test_every_dependency_says_what_it_is_for() -> None:
    lines = (REPOSITORY / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    start = lines.index("dependencies = [")
    dependencies = lines[start + 1 : lines.index("]", start)]

    assert [line for line in dependencies if "# " not in line] == []

"""Finding tools at start-up: every module of the packages named is imported, and what is marked in them is registered.

Which modules: the package itself and all modules and packages below it, at any depth, also such as begin with an
underscore and folders without `__init__.py`; only `__main__` is left out.

What in a module:

- functions marked with `@tool` that are defined in one of the modules searched. What is imported from elsewhere is not
  the model's just because a module uses it; to offer it, name its module among the packages;
- tools built in code (`search = ToolCallback.from_function(…)`), and toolsets, which are objects whose class has marked
  methods (`lamps = Lamps(port=3)`), wherever their class comes from;
- static and class methods of marked classes.

What has several names, or is imported by a sibling, is registered once. Lists and other containers are not looked into.

All problems are collected, so that one start tells them all.
"""

from __future__ import annotations

import functools
import importlib
import logging
import pkgutil
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from app.chat import ConfigurationError, Tool
from app.tooling.decorator import ToolOptions, options_of
from app.tooling.signature import name_of, place_of, shown_path
from app.tooling.threads import ToolThreads
from app.tooling.toolsets import callback_of, is_tool, marked_methods, name_clashes, needs_object, unique

logger = logging.getLogger(__name__)


def discover(packages: Sequence[str], *, threads: ToolThreads | None = None) -> tuple[Tool, ...]:
    """Import packages with all that is below them and build the tools found.

    Args:
        packages: importable names, such as `tools` or `company.assistant.tools`; modules do as well.
        threads: where tools run that are no coroutine functions; None = threads that all such tools share.

    Returns:
        The tools, in the order of packages, modules by name, and definitions. Those that are not to be offered by
        default are among them; their metadata says so.

    Raises:
        ConfigurationError: all problems there are: modules that cannot be imported, functions that cannot be tools,
            names that clash. Each is told with its place.
    """
    modules, problems = _import_all(packages)
    found, unfit = _Search(modules, threads).run()
    tools = unique(found)
    problems += [*unfit, *name_clashes(tools)]
    if problems:
        raise ConfigurationError("\n".join(["the tools cannot be registered:", *(f"- {each}" for each in problems)]))
    return tools


class _Search:
    """Looks through modules for tools."""

    def __init__(self, modules: Sequence[ModuleType], threads: ToolThreads | None) -> None:
        self._modules = {module.__name__: module for module in modules}
        self._threads = threads
        self._tools: list[Tool] = []
        self._problems: list[str] = []
        self._with_objects = {
            base for _, value in self._members() if _is_toolset(value) for base in type(value).__mro__
        }

    def run(self) -> tuple[list[Tool], list[str]]:
        """The tools, and what is wrong with others."""
        for module, value in self._members():
            options = options_of(value)
            if options is not None:
                self._add_function(module, value, options)
            elif is_tool(value):
                self._tools.append(value)
            elif issubclass(type(value), type):
                self._add_class(value)
            elif _is_toolset(value):
                self._add_methods(value, type(value))
        return self._tools, self._problems

    def _members(self) -> Iterator[tuple[ModuleType, Any]]:
        """What the modules hold, each thing once."""
        seen: set[int] = set()
        for module in self._modules.values():
            for value in list(vars(module).values()):
                if id(value) not in seen:
                    seen.add(id(value))
                    yield module, value

    def _is_searched(self, definition: Any) -> bool:
        return getattr(definition, "__module__", None) in self._modules

    def _add_function(self, module: ModuleType, function: Any, options: ToolOptions) -> None:
        if self._is_searched(function) or isinstance(function, functools.partial):
            self._add(function, options)
        else:
            logger.warning(
                "%s imports the tool %s from %s, which is not searched for tools: it is not registered",
                module.__name__,
                name_of(function),
                getattr(function, "__module__", "elsewhere"),
            )

    def _add_class(self, cls: type) -> None:
        if not self._is_searched(cls) or cls in self._with_objects:
            return
        homeless = [attribute for attribute in marked_methods(cls) if needs_object(cls, attribute)]
        if homeless:
            self._problems.append(
                f"{place_of(getattr(cls, homeless[0]))}: {cls.__qualname__}.{homeless[0]} is a tool, but no module "
                f"searched has an object of its class: add one, as in `{cls.__name__.lower()} = {cls.__name__}(…)`"
            )
        else:
            self._add_methods(cls, cls)

    def _add_methods(self, toolset: Any, cls: type) -> None:
        for attribute, options in marked_methods(cls).items():
            self._add(getattr(toolset, attribute), options)

    def _add(self, function: Any, options: ToolOptions) -> None:
        try:
            self._tools.append(callback_of(function, options, self._threads))
        except ConfigurationError as error:
            self._problems.append(str(error))


def _is_toolset(value: Any) -> bool:
    """Whether a thing is an object with tools, found out without running anything of it."""
    return not issubclass(type(value), type) and bool(marked_methods(type(value)))


def _import_all(packages: Sequence[str]) -> tuple[list[ModuleType], list[str]]:
    """The modules of packages and below them, and what kept others from being imported."""
    modules: dict[str, ModuleType] = {}
    problems: dict[str, str] = {}

    def walk(name: str) -> None:
        if name in modules or name in problems:
            return
        try:
            module = importlib.import_module(name)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a module raises what it likes, and may even exit
            problems[name] = f"{name} cannot be imported: {_told(name, error)}"
            return
        modules[name] = module
        if (folder := _passed_over(module)) is not None:
            problems[name] = (
                f"{name} is the package at {shown_path(str(module.__file__))}, and the folder {folder.name} here is "
                f"passed over, for it has no __init__.py: add an empty {folder.name}/__init__.py"
            )
        for child in _children(module):
            walk(f"{name}.{child}")

    for package in packages:
        walk(package)
    return list(modules.values()), list(problems.values())


def _children(package: ModuleType) -> list[str]:
    """Names of the modules directly below a package."""
    paths = list(getattr(package, "__path__", ()))
    names = {module.name for module in pkgutil.iter_modules(paths)}
    for path in map(Path, paths):
        if path.is_dir():  # which a path within a zip file is not
            names |= {folder.name for folder in path.iterdir() if _is_namespace(folder)}
    return sorted(names - {"__main__"})


def _is_namespace(folder: Path) -> bool:
    """Whether a folder is a package without `__init__.py`, which pkgutil passes over."""
    return folder.is_dir() and folder.name.isidentifier() and next(folder.rglob("*.py"), None) is not None


def _passed_over(module: ModuleType) -> Path | None:
    """The folder in the working folder that has the package's name, but loses to a package with `__init__.py`."""
    folder = Path.cwd() / module.__name__
    if module.__file__ is None or not {"", str(folder.parent)} & set(sys.path):
        return None
    return folder if _is_namespace(folder) and folder not in Path(module.__file__).parents else None


def _told(name: str, error: BaseException) -> str:
    """What happened, and where in the module."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_machinery(frame.filename)]
    if isinstance(error, SyntaxError) and error.filename:
        where = f" ({shown_path(error.filename)}:{error.lineno})"
        return f"{type(error).__name__}: {error.msg}{where}"
    if isinstance(error, ModuleNotFoundError) and not frames:
        return f"there is no module of that name; packages are importable names, such as tools ({error})"
    where = f" ({shown_path(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


def _is_machinery(filename: str) -> bool:
    return filename.startswith("<frozen importlib") or filename in {importlib.__file__, __file__}

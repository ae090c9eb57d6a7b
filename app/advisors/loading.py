"""Advisors of an operator's own, by the names of their factories."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from functools import reduce
from typing import Any

from app.chat import Advisor, ConfigurationError


def load_advisors(factories: Iterable[str]) -> tuple[Advisor, ...]:
    """Make one advisor by each factory.

    Args:
        factories: names of the form `package.module:factory`; what they name is called without arguments.

    Raises:
        ConfigurationError: a module cannot be imported, there is no such factory in it, it fails, or what it makes
            is no advisor.
    """
    return tuple(map(_load, factories))


def _load(name: str) -> Advisor:
    module, _, path = name.partition(":")
    try:
        factory: Any = reduce(getattr, path.split("."), importlib.import_module(module))
        advisor = factory()
    except Exception as error:
        raise ConfigurationError(f"advisors: {name} cannot be made: {type(error).__name__}: {error}") from error
    if not isinstance(advisor, Advisor):
        raise ConfigurationError(
            f"advisors: {name} made a {type(advisor).__name__}, which is no advisor: it needs `order` and `advise`"
        )
    return advisor

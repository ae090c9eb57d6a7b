"""Values that are made often: an answer takes eighty of them, and each token of a stream takes some more.

`dataclass` lets a frozen class set its fields by `object.__setattr__`, which looks each of them up by its name. The
slot of a field can be given its value directly, in half the time.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from functools import wraps
from typing import Any, TypeVar

T = TypeVar("T")

_UNSAID: Any = object()


def made_often(cls: type[T]) -> type[T]:
    """Give a frozen dataclass an `__init__` that takes and does the same, and fills the slots directly.

    Args:
        cls: it has slots, and all of its fields are parameters that may be given by their places.
    """
    parameters, steps = ["self"], []
    names: dict[str, Any] = {"UNSAID": _UNSAID}
    for field in fields(cls):  # type: ignore[arg-type]  # a dataclass, which no type says
        name, value = field.name, field.name
        names[f"set_{name}"] = vars(cls)[name].__set__
        if field.default is not MISSING:
            names[f"default_{name}"] = field.default
            parameters.append(f"{name}=default_{name}")
        elif field.default_factory is not MISSING:
            names[f"make_{name}"] = field.default_factory
            parameters.append(f"{name}=UNSAID")
            value = f"make_{name}() if {name} is UNSAID else {name}"
        else:
            parameters.append(name)
        steps.append(f"set_{name}(self, {value})")
    text = f"def __init__({', '.join(parameters)}):\n    {'; '.join(steps)}"
    exec(text, names)  # noqa: S102 - as `dataclass` does it, of the names of fields
    cls.__init__ = wraps(cls.__init__)(names["__init__"])  # type: ignore[method-assign]  # the point of this function
    return cls

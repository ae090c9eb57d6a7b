"""Which functions were called, and how often."""

from __future__ import annotations

import sys
import sysconfig
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Self

ROOT = Path(__file__).parents[2]
OURS = ("app/", "tools/")
_FOLDERS = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), sysconfig.get_path("stdlib"), str(ROOT))
"""Where code lies, and below which its names begin. The environment usually lies in the last one."""


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls by function. Those of a function that is written in C stand with the function that made them.

    Attributes:
        by_function: how many; a name is a file and, behind a blank, the function in it.
    """

    by_function: Mapping[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        """All of them."""
        return sum(self.by_function.values())

    def __add__(self, other: Calls) -> Calls:
        """Both together."""
        names = dict.fromkeys((*self.by_function, *other.by_function))
        return Calls({name: self.of(name) + other.of(name) for name in names})

    def __mul__(self, times: float) -> Calls:
        """The same so many times."""
        return Calls({name: number * times for name, number in self.by_function.items()})

    def of(self, name: str) -> float:
        """Those of one function, or of one file."""
        return self.by_function.get(name, 0)

    def rounded(self) -> Calls:
        """As precise as they are kept, without functions that are not called: one call in a thousand is seen."""
        return Calls({name: rounded for name, number in self.by_function.items() if (rounded := round(number, 3))})

    def folded(self) -> Calls:
        """Those of others' code by file. Of our own the functions stay."""
        found: Counter[str] = Counter()
        for name, number in self.by_function.items():
            found[folded(name)] += number  # type: ignore[assignment] # typeshed has counters of whole numbers only
        return Calls(found)


def folded(name: str) -> str:
    """What a function is kept under: itself if it is ours, else its file."""
    return name if name.startswith(OURS) else name.partition(" ")[0]


class CallCounter:
    """Counts calls while it is on, in this thread and in all that were started since it was made.

    To go on with a generator or a coroutine is a call, too.

    Args:
        apart: files and folders with code that is counted as if it was written in C: calls of it count, and what it
            calls does not, as far as it is apart or really is written in C.
        beneath: count a call with all functions that are being executed, and not only with the one that is called.
            Whoever looks for where calls come from sees more, and waits ten times as long.
    """

    def __init__(self, apart: Iterable[Path], *, beneath: bool = False) -> None:
        self._apart = tuple(map(str, apart))
        self._is_beneath = beneath
        self._is_on = False
        self._codes: dict[int, CodeType] = {}
        self._is_apart: dict[int, bool] = {}
        self._counts: dict[int, int] = {}
        threading.setprofile(self._take)

    def __enter__(self) -> Self:
        """Begin to count, from nothing."""
        self._counts = dict.fromkeys(self._counts, 0)
        self._is_on = True
        sys.setprofile(self._take)
        return self

    def __exit__(self, *_: object) -> None:
        """Count no more."""
        sys.setprofile(None)
        self._is_on = False

    def calls(self) -> Calls:
        """What was counted last."""
        found: Counter[str] = Counter()
        for key, number in self._counts.items():
            if number:
                found[_name(self._codes[key])] += number
        return Calls(found)

    def _take(self, frame: FrameType, event: str, _: Any) -> None:
        if not self._is_on or event not in {"call", "c_call"}:
            return
        if self._stands_apart(frame) and (event == "c_call" or self._stands_apart(frame.f_back)):
            return
        self._counts[id(frame.f_code)] += 1
        if self._is_beneath:
            for key in {id(above.f_code) for above in _above(frame) if not self._stands_apart(above)}:
                self._counts[key] += key != id(frame.f_code)  # a function that calls itself is one

    def _stands_apart(self, frame: FrameType | None) -> bool:
        if frame is None:
            return False
        code = frame.f_code
        key = id(code)  # the hash of a code object would be that of all it holds
        if key not in self._codes:
            self._codes[key] = code  # kept, so that no other gets its id
            self._counts[key] = 0
            self._is_apart[key] = code.co_filename.startswith(self._apart)
        return self._is_apart[key]


def _above(frame: FrameType) -> Iterator[FrameType]:
    above = frame.f_back
    while above is not None:
        yield above
        above = above.f_back


def _name(code: CodeType) -> str:
    path = code.co_filename.replace(" ", "_")
    below = next((folder for folder in _FOLDERS if path.startswith(f"{folder}/")), None)
    return f"{path if below is None else path.removeprefix(f'{below}/')} {code.co_qualname}"

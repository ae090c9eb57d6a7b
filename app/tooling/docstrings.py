"""What docstrings say of parameters and fields, in Google, NumPy or Sphinx style.

The style is not configured but seen: every section that describes parameters is found by its own form, wherever it
stands and with or without a blank line before it, so one docstring may even mix styles. What such sections say goes to
the parameters; everything else (returns, errors, notes, examples) stays in the description, for it helps the model.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypeAlias

Style: TypeAlias = Literal["google", "numpy", "sphinx"]

_TITLES = "(?:args|arguments|params|parameters|keyword args|keyword arguments|other parameters|attributes)"
_GOOGLE_HEADER = re.compile(rf"(\s*){_TITLES}\s*:\s*", re.IGNORECASE)
_NUMPY_HEADER = re.compile(rf"{_TITLES}\s*", re.IGNORECASE)
_UNDERLINE = re.compile(r"\s*-{3,}\s*")
_SPHINX_FIELD = re.compile(r"(\s*):(?:param|parameter|arg|argument|key|keyword|var|ivar|cvar)\s+([^:]+):(.*)")
_SPHINX_TYPE = re.compile(r"(\s*):(?:type|vartype|kwtype)\s[^:]*:.*")


@dataclass(frozen=True, slots=True)
class Documentation:
    """What a docstring says.

    Attributes:
        description: all of it but the sections that describe parameters.
        parameters: description by name, of parameters and of attributes alike.
    """

    description: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Section:
    """Lines `start` to `end` of a docstring, which describe parameters; `text` is the same for the parser."""

    start: int
    end: int
    style: Style
    text: str


@lru_cache(maxsize=1024)
def read_docstring(docstring: str | None) -> Documentation:
    """Take a docstring apart.

    Args:
        docstring: as it stands in the source; None where there is none.

    Returns:
        Description and parameters, both empty where it says nothing of them.
    """
    lines = inspect.cleandoc(docstring or "").splitlines()
    parameters: dict[str, str] = {}
    kept: list[str] = []
    position = 0
    for section in _sections(lines):
        found = _parse(section)
        if not found:  # a heading that only looks like one: leave the text alone
            continue
        parameters.update(found)
        kept += [*lines[position : section.start], ""]
        position = section.end
    kept += lines[position:]
    # What was cut out leaves blank lines behind.
    description = re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in kept)).strip()
    return Documentation(description, parameters)


def _sections(lines: Sequence[str]) -> Iterator[_Section]:
    position = 0
    while position < len(lines):
        section = _google(lines, position) or _numpy(lines, position) or _sphinx(lines, position)
        if section is not None:
            yield section
            position = section.end
        else:
            position += 1


def _google(lines: Sequence[str], start: int) -> _Section | None:
    header = _GOOGLE_HEADER.fullmatch(lines[start])
    first = _next_text(lines, start + 1)
    if header is None or first is None:
        return None
    margin = _indent(lines[first])
    # The first line of a docstring has lost its indent, and what stands below it perhaps, too.
    if margin <= len(header[1]) and start > 0:
        return None
    end = _end_of_block(lines, first, margin)
    return _Section(start, end, "google", "\n".join(["Args:", *(f"    {line[margin:]}" for line in lines[first:end])]))


def _numpy(lines: Sequence[str], start: int) -> _Section | None:
    if not (_NUMPY_HEADER.fullmatch(lines[start]) and _is_underline(lines, start + 1)):
        return None
    end = start + 2
    while end < len(lines) and not _is_underline(lines, end + 1):
        end += 1
    return _Section(start, end, "numpy", "\n".join(["Parameters", "----------", *lines[start + 2 : end]]))


def _sphinx(lines: Sequence[str], start: int) -> _Section | None:
    text: list[str] = []
    position = start
    while position < len(lines):
        described = _SPHINX_FIELD.fullmatch(lines[position])
        typed = _SPHINX_TYPE.fullmatch(lines[position])
        heading = described or typed
        if heading is None:
            break
        end = _end_of_block(lines, position + 1, len(heading[1]) + 1)
        if described is not None:
            # Only the name: what may stand before it is a type, which the annotation says better.
            text += [f":param {described[2].split()[-1]}:{described[3]}", *lines[position + 1 : end]]
        position = end
    return _Section(start, position, "sphinx", "\n".join(text)) if position > start else None


def _end_of_block(lines: Sequence[str], start: int, margin: int) -> int:
    """Where the lines end that are indented by at least `margin`; blank lines after them are not theirs."""
    end = start
    for position in range(start, len(lines)):
        if lines[position].strip():
            if _indent(lines[position]) < margin:
                break
            end = position + 1
    return end


def _parse(section: _Section) -> dict[str, str]:
    import griffe  # noqa: PLC0415 - a tenth of a second that only documented parameters cost

    docstring = griffe.Docstring("\n" + section.text)  # a first line that is empty keeps the indents of the others
    sections = griffe.parse(docstring, section.style, warnings=False)
    return {
        parameter.name.strip("-*` "): parameter.description.strip()
        for parsed in sections
        if isinstance(parsed, griffe.DocstringSectionParameters)
        for parameter in parsed.value
        if parameter.description.strip()
    }


def _is_underline(lines: Sequence[str], position: int) -> bool:
    return position < len(lines) and _UNDERLINE.fullmatch(lines[position]) is not None


def _next_text(lines: Sequence[str], position: int) -> int | None:
    return next((at for at in range(position, len(lines)) if lines[at].strip()), None)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())

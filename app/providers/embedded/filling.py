"""Fills a tool's parameters from what a message says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from app.providers.embedded.building import Values, build, given, listed_further
from app.providers.embedded.examples import made_up
from app.providers.embedded.finds import Find, finds
from app.providers.embedded.fitting import EVIDENT, Fit, Fitting, choices, label_of, truths
from app.providers.embedded.language import Stems, stem, stems, words
from app.providers.embedded.remainder import bare, brief, parts, remainder
from app.providers.embedded.schemas import NOTHING, Schemas, listed, mapping
from app.providers.embedded.slots import Group, Path, Slot, group_of


@dataclass(frozen=True, slots=True)
class Filled:
    """What came of filling a tool's parameters.

    Attributes:
        calls: arguments of each call; several where the message lists values (`Paris and Oslo`), none where the
            message does not say enough.
        missing: required parameters for which there is no value.
        said: how many values the sentence itself gave, without those of its surroundings.
    """

    calls: tuple[dict[str, Any], ...] = ()
    missing: tuple[Slot, ...] = ()
    said: int = 0


def fill(
    schemas: Schemas, text: str, triggers: Stems, *, around: Sequence[str] = (), rest: bool = True, invent: bool = False
) -> Filled:
    """Fill a tool's parameters.

    Args:
        schemas: the tool's input schema.
        text: the sentence that asks for the tool.
        triggers: stems that speak of the tool as a whole.
        around: texts to look for what the sentence lacks, nearest first.
        rest: whether a parameter that takes any text may have what is left of the sentence.
        invent: whether to make up what is said nowhere.
    """
    found = finds(text)
    if whole := _written_out(schemas, found):
        return Filled((whole,), said=len(whole))
    filling = _Filling(schemas, text, triggers)
    fans = filling.read(text, found)
    if rest:
        filling.read_rest()
    said = len(filling.values)
    for other in around:
        if open_slots := filling.open(referring=bool(_REFERS.search(text))):
            filling.read(other, filling.unused(finds(other)), open_slots)
    if invent:
        for slot in filling.missing():
            filling.accept(slot, made_up(schemas, slot.schema, text))
    if missing := filling.missing():
        return Filled((), tuple(missing), said)
    built = (build(schemas, filling.group, {**filling.values, **fan}) for fan in ({}, *fans))
    return Filled(tuple(arguments for arguments in built if arguments is not NOTHING), said=said)


def values_in(schemas: Schemas, text: str) -> tuple[Group, Values]:
    """The parameters of a schema, and what a text says of them."""
    filling = _Filling(schemas, text, frozenset())
    filling.read(text, finds(text))
    return filling.group, filling.values


def _written_out(schemas: Schemas, found: Iterable[Find]) -> dict[str, Any] | None:
    """Arguments that the message holds as JSON."""
    properties = mapping(schemas.resolve(schemas.root).get("properties"))
    for find in found:
        value = find.value if find.kind == "json" else None
        if (
            isinstance(value, dict)
            and value
            and value.keys() <= properties.keys()
            and schemas.fits(value, schemas.root)
        ):
            return value
    return None


class _Filling:
    """The parameters of one tool while they are being filled.

    Args:
        schemas: the tool's input schema.
        text: the sentence that asks for the tool.
        triggers: stems that speak of the tool as a whole.
    """

    def __init__(self, schemas: Schemas, text: str, triggers: Stems) -> None:
        self.group = group_of(schemas, stems(words(text)))
        self.values: Values = {}
        self._schemas = schemas
        self._text = text
        self._triggers = triggers
        self._slots = list(self.group.slots())
        self._names: Stems = frozenset[str]().union(*(slot.own for slot in self._slots))
        self._taken: list[Find] = []

    def missing(self) -> list[Slot]:
        """Required parameters that have no value yet and none of their own."""
        return [slot for slot in self._slots if slot.required and not self._is_settled(slot)]

    def open(self, *, referring: bool) -> list[Slot]:
        """Parameters to look for elsewhere: missing ones, and all where the sentence refers to what was said."""
        return [slot for slot in self._slots if slot.path not in self.values] if referring else self.missing()

    def _is_settled(self, slot: Slot) -> bool:
        return slot.path in self.values or given(slot.schema, self._schemas) is not NOTHING

    def accept(self, slot: Slot, value: Any) -> bool:
        """Give a parameter a value if its schema allows it."""
        if value is NOTHING or not self._schemas.fits(value, slot.schema):
            return False
        self.values[slot.path] = value
        return True

    def unused(self, found: Iterable[Find]) -> list[Find]:
        """Values without those that some parameter has: a text around the sentence may hold the sentence itself."""
        used = [(find.kind, find.value) for find in self._taken]
        return [find for find in found if (find.kind, find.value) not in used]

    def read(self, text: str, found: Sequence[Find], only: Sequence[Slot] | None = None) -> list[dict[Path, Any]]:
        """Give the values found in a text to the parameters they suit best.

        Returns:
            Further values that the text lists for one of them.
        """
        slots = self._slots if only is None else only
        taken = self._taken if only is None else []
        fits = list(self._fits(text, found, slots))
        accepted = self._take(fits, taken, lambda fit: fit.slot.required or fit.score >= _least(fit.slot))
        self._take_lists(text, found, slots, taken)
        self._take_pairs(found, slots)
        accepted += self._take(fits, taken, lambda fit: fit.find.kind == "number" and fit.score >= _BARE_NUMBER)
        return listed_further(text, fits, accepted) if only is None else []

    def _fits(self, text: str, found: Sequence[Find], slots: Sequence[Slot]) -> Iterator[Fit]:
        fitting = Fitting(self._schemas, text, self._triggers | self._names)
        for slot in slots:
            if slot.items is NOTHING:
                own = [*choices(slot, self._schemas, text), *(truths(slot, text) if slot.takes("boolean") else ())]
                for find in [*own, *found]:
                    fit = fitting.fit(slot, find) if self._may_take(slot, find) else None
                    if fit is not None and fit.score > 0:
                        yield fit

    def _may_take(self, slot: Slot, find: Find) -> bool:
        """Whether the word that names a value names this parameter, the tool, or nothing here."""
        label = label_of(find)
        if not label or label & slot.own:
            return True
        if any(label & other.own for other in self._slots):
            return False
        return find.kind != "labelled" or bool(label & self._triggers)

    def _take(self, fits: Iterable[Fit], taken: list[Find], wanted: Callable[[Fit], bool]) -> list[Fit]:
        accepted: list[Fit] = []
        for fit in sorted(fits, key=lambda fit: (-fit.score - fit.slot.required / 2, fit.find.start)):
            free = fit.slot.path not in self.values and not any(fit.find.overlaps(each) for each in taken)
            if free and wanted(fit) and self.accept(fit.slot, fit.value):
                taken.append(fit.find)
                accepted.append(fit)
        return accepted

    def _take_lists(self, text: str, found: Sequence[Find], slots: Sequence[Slot], taken: list[Find]) -> None:
        """Fill the parameters that take lists of plain values, from what no other parameter has taken."""
        fitting = Fitting(self._schemas, text, self._triggers | self._names)
        for slot in slots:
            if slot.items is NOTHING or slot.path in self.values:
                continue
            candidates = [*choices(slot, self._schemas, text), *found]
            free = [find for find in candidates if not any(find.overlaps(each) for each in taken)]
            whole = [fit for find in free if find.kind == "json" and (fit := fitting.fit(slot, find))]
            if whole and self.accept(slot, whole[0].value):
                taken.append(whole[0].find)
                continue
            fits = [fit for find in free if self._may_take(slot, find) and (fit := fitting.fit(slot, find, slot.items))]
            picked = _alike([fit for fit in fits if fit.score > 0])
            if not picked or (not slot.required and not any(fit.score >= EVIDENT for fit in picked)):
                continue
            prefix = len(listed(slot.schema.get("prefixItems")))
            if self.accept(slot, [fit.value for fit in picked][: prefix or None]):
                taken.extend(fit.find for fit in picked)

    def _take_pairs(self, found: Sequence[Find], slots: Sequence[Slot]) -> None:
        """Fill the parameters that take objects of any keys, from values that words of the message's own name."""
        for slot in slots:
            if slot.takes("object") and slot.path not in self.values:
                own = [find for find in found if find.label and not any(label_of(find) & other.own for other in slots)]
                told = {find.label: find.value for find in own if find.kind == "labelled"}
                typed = {find.label: find.value for find in own if find.kind != "labelled"}
                if own and not self.accept(slot, told | typed):
                    self.accept(slot, typed | told)

    def read_rest(self) -> None:
        """Give what is left of the sentence to the one parameter that takes any text."""
        slot = self._slot_for_rest()
        if slot is None:
            return
        rest, led = remainder(self._text, self._taken, self._triggers)
        first, _, others = rest.partition(" ")
        if others and stem(first) in slot.own:
            rest = others  # `with text hello`: the parameter's own name
        if slot.items is not NOTHING:
            self.accept(slot, (parts(rest, self._triggers) if led else []) or NOTHING)
            return
        if slot.sense == "any":
            rest = bare(rest, self._triggers) if led else ""
        elif slot.sense != "text":
            rest = brief(rest, self._triggers) if led else ""
        self.accept(slot, rest or NOTHING)

    def _slot_for_rest(self) -> Slot | None:
        free = [slot for slot in self._slots if slot.required and not self._is_settled(slot) and _is_open(slot)]
        if not any(slot.required for slot in self._slots):
            free += [
                slot for slot in self._slots if slot.sense == "text" and _is_open(slot) and slot.path not in self.values
            ]
        return min(free, key=lambda slot: (not slot.required, slot.sense != "text"), default=None)


_REFERS = re.compile(r"\bthere\b", re.IGNORECASE)
_BARE_NUMBER = 2.0
"""Points of a number that nothing speaks for or against: it may go to an optional parameter that takes numbers."""
_OPEN_SENSES = frozenset({"text", "any", "place", "person", "code"})


def _least(slot: Slot) -> float:
    """Points from which on a value is evident for an optional parameter."""
    return EVIDENT - 1 if slot.takes("integer", "number") else EVIDENT


def _is_open(slot: Slot) -> bool:
    """Whether any text may be its value."""
    confined = any(keyword in branch for branch in slot.branches for keyword in ("enum", "const", "format"))
    return slot.sense in _OPEN_SENSES and not confined and slot.takes("string", "array")


def _alike(fits: list[Fit]) -> list[Fit]:
    """The fits of the kind that suits best, in the order of the text, no two in one place."""
    if not fits:
        return []
    kind = max(fits, key=lambda fit: fit.score).find.kind
    picked: list[Fit] = []
    for fit in sorted(fits, key=lambda fit: fit.find.start):
        if fit.find.kind == kind and not any(fit.find.overlaps(other.find) for other in picked):
            picked.append(fit)
    return picked

"""What is counted: whole exchanges, and what one more of something adds to an exchange."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add

from benchmarks.counting.calls import Calls
from benchmarks.counting.exchanges import Exchange, Setup


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of calls, made of the calls of exchanges.

    Attributes:
        name: what makes so many.
        shares: how often each exchange is in it.
    """

    name: str
    shares: Mapping[Exchange, float]

    @classmethod
    def whole(cls, name: str, exchange: Exchange) -> Figure:
        """All of an exchange."""
        return cls(name, {exchange: 1})

    @classmethod
    def further(cls, name: str, more: Exchange, less: Exchange, number: int) -> Figure:
        """One of the number of things that an exchange has more than another."""
        return cls(name, {more: 1 / number, less: -1 / number})

    def of(self, counted: Mapping[Exchange, Calls]) -> Calls:
        """The figure, when the exchanges are counted."""
        shares = (counted[exchange] * share for exchange, share in self.shares.items())
        return reduce(add, shares, Calls()).rounded()


def _burst(words: int, advisors: int = 0) -> Exchange:
    return Exchange(Setup(advisors=advisors), stream=True, words=words)


def _paced(words: int) -> Exchange:
    return Exchange(stream=True, words=words, is_paced=True)


_SHORT, _LONG = 200, 1_000
_MANY = 100
_ADVISORS = 10
_ANSWER, _LOOP = Exchange(), Exchange(rounds=1)
_ADVISED = {
    _burst(_LONG, _ADVISORS): 1.0,
    _burst(_SHORT, _ADVISORS): -1.0,
    _burst(_LONG): -1.0,
    _burst(_SHORT): 1.0,
}

FIGURES = (
    Figure.whole("an answer", _ANSWER),
    Figure.whole("an answer after a round of tools", _LOOP),
    Figure.whole("a streamed answer of one token", _burst(1)),
    Figure.whole("a streamed answer after a round of tools", Exchange(stream=True, rounds=1)),
    Figure.whole("an answer that is remembered", Exchange(is_remembered=True)),
    Figure.further("a further round of tools", Exchange(rounds=6), _LOOP, 5),
    Figure.further(
        "a further round of tools, in threads",
        Exchange(Setup(in_threads=True), rounds=6),
        Exchange(Setup(in_threads=True), rounds=1),
        5,
    ),
    Figure.further("a further token, in a burst", _burst(_LONG), _burst(_SHORT), _LONG - _SHORT),
    Figure.further("a further token, by itself", _paced(_MANY), _paced(20), _MANY - 20),
    Figure.further("a further message of history", Exchange(history=_MANY), _ANSWER, _MANY),
    Figure.further("a further tool offered", Exchange(Setup(tools=1 + _MANY)), _ANSWER, _MANY),
    Figure.further("a further advisor", Exchange(Setup(advisors=_ADVISORS)), _ANSWER, _ADVISORS),
    Figure(
        "a further advisor, for each token",
        {exchange: share / (_LONG - _SHORT) / _ADVISORS for exchange, share in _ADVISED.items()},
    ),
)
"""All figures, in the order in which they are told."""


def exchanges_of(figures: Iterable[Figure]) -> list[Exchange]:
    """The exchanges that have to be counted for them."""
    return list(dict.fromkeys(exchange for figure in figures for exchange in figure.shares))

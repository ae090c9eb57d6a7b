"""What was measured, as tables for people and as figures for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.speed.rounds import RESTING, Samples
from benchmarks.speed.scenarios import SCENARIOS


class Row(NamedTuple):
    """A line of the table: a figure of a scenario."""

    scenario: str
    title: str
    figure: str


_CPU_ANSWER, _CPU_TOKEN = "cpu_ms_per_answer", "cpu_us_per_token"
ROWS = (
    Row("answer-1", "ms CPU an answer", _CPU_ANSWER),
    Row("answer-32", "ms CPU an answer", _CPU_ANSWER),
    Row("answer-32", "answers a CPU second", "answers_per_cpu_second"),
    Row("answer-256", "ms CPU an answer", _CPU_ANSWER),
    Row("answer-256", "answers a CPU second", "answers_per_cpu_second"),
    Row("remembered", "ms CPU an answer", _CPU_ANSWER),
    Row("burst", "µs CPU a token", _CPU_TOKEN),
    *(
        row
        for streams in ("paced-5", "paced-20", "paced-500")
        for row in (
            Row(streams, "µs CPU a token", _CPU_TOKEN),
            Row(streams, "delay of a token, p50, ms", "delay_p50_ms"),
            Row(streams, "delay of a token, p99, ms", "delay_p99_ms"),
            Row(streams, "tokens a second", "tokens_per_second"),
        )
    ),
    Row("first-event", "ms to the first event, p50", "first_event_p50_ms"),
    Row("first-event", "ms to the first event, p99", "first_event_p99_ms"),
    Row("first-event", "ms to the first token, p50", "first_token_p50_ms"),
    Row(RESTING, "seconds to ready", "start_s"),
    Row(RESTING, "seconds of CPU to ready", "start_cpu_s"),
    Row(RESTING, "MB, idle", "idle_mb"),
    Row(RESTING, "MB, idle after answers", "served_mb"),
    Row(RESTING, "KiB a stream, journal apart", "kib_per_stream_without_journal"),
    Row(RESTING, "KiB a stream in all", "kib_per_stream"),
    Row(RESTING, "bytes of journal an event", "journal_bytes_per_event"),
)
_TITLES = {scenario.name: scenario.title for scenario in SCENARIOS} | {RESTING: "a gateway of its own"}


def markdown(samples: Samples) -> str:
    """The tables."""
    servers = list(dict.fromkeys(one.server for one in samples.taken))
    rows = [
        (_TITLES[row.scenario], row.title, *(_cell(samples, server, row) for server in servers))
        for row in ROWS
        if any(samples.spread(server, row.scenario, row.figure) for server in servers)
    ]
    return "\n".join(table(("scenario", "figure", *servers), rows))


def _cell(samples: Samples, server: str, row: Row) -> str:
    spread = samples.spread(server, row.scenario, row.figure)
    if spread is None:
        return ""
    if spread.least == spread.most:
        return number(spread.median)
    return f"**{number(spread.median)}** ({number(spread.least)} to {number(spread.most)})"


def number(value: float) -> str:
    """A number with three figures, or whole."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004 - three figures


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """A table in Markdown, by line."""
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(map(str, row)) + " |"

"""What was measured, as tables for people and as figures for programs."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from benchmarks.speed import processes
from benchmarks.speed.samples import Samples, point_name
from benchmarks.speed.scenarios import RESTING, SCENARIOS
from benchmarks.speed.servers import GATEWAY, MODEL_SERVER, NGINX, PASSTHROUGH, PEERS
from benchmarks.speed.verdicts import added_delays, all_growth, verdicts


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
    Row("answer-32", "answers a second", "answers_per_second"),
    Row("burst", "µs CPU a token", _CPU_TOKEN),
    Row("burst", "tokens a second", "tokens_per_second"),
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
    return "\n\n".join("\n".join(part) for part in (_compared(samples), _grown(samples), _judged(samples)) if part)


def figures(samples: Samples) -> dict[str, Any]:
    """All of it, for programs."""
    return {
        "machine": machine(),
        "verdicts": [{**asdict(one), "is_kept": one.is_kept} for one in verdicts(samples)],
        "growth": {
            sweep.name: {**asdict(growth), "is_linear_at_most": growth.is_linear_at_most}
            for sweep, growth in all_growth(samples)
        },
        "medians": [
            {"server": server, "scenario": scenario, "figure": figure, **asdict(spread)}
            for server, scenario, figure in dict.fromkeys(
                (one.server, one.scenario, figure) for one in samples.taken for figure in one.values
            )
            if (spread := samples.spread(server, scenario, figure)) is not None
        ],
        "samples": [asdict(one) for one in samples.taken],
    }


def machine() -> dict[str, Any]:
    """Where it was measured."""
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "load_average": list(os.getloadavg()),
        "pinned": processes.cores() != (None, None),
    }


def _compared(samples: Samples) -> list[str]:
    known = [GATEWAY, PASSTHROUGH, NGINX, *PEERS, MODEL_SERVER]
    servers = [name for name in known if any(one.server == name for one in samples.taken)]
    rows = [
        (_TITLES[row.scenario], row.title, *(_cell(samples, server, row) for server in servers))
        for row in ROWS
        if any(samples.spread(server, row.scenario, row.figure) for server in servers)
    ]
    return list(table(("scenario", "figure", *servers), rows)) if rows else []


def _grown(samples: Samples) -> list[str]:
    rows = []
    for sweep, growth in all_growth(samples):
        unit = "µs CPU a token" if sweep.figure == _CPU_TOKEN else "ms CPU an answer"
        costs = [samples.least(GATEWAY, point_name(sweep.name, point.number), sweep.figure) for point in sweep.points]
        told = ", ".join(
            f"{point.number}: {number(cost)}"
            for point, cost in zip(sweep.points, costs, strict=True)
            if cost is not None
        )
        slope = f"{number(growth.slope * 1000)} {'ns' if sweep.figure == _CPU_TOKEN else 'µs'} each {sweep.each}"
        rows.append((sweep.title, unit, told, slope, f"{growth.excess:+.0%}", _word(growth.is_linear_at_most)))
    head = ("against the number of", "figure", "cost", "slope", "over the line at the end", "no worse than linear")
    return list(table(head, rows)) if rows else []


def _judged(samples: Samples) -> list[str]:
    rows = []
    for one in verdicts(samples):
        limit = f"{'at most' if one.at_most else 'at least'} {number(one.limit)}"
        rows.append((one.promise, limit, "" if one.value is None else number(one.value), _word(one.is_kept)))
    rows += [
        (f"{_TITLES[scenario]}: the same without the harness's own delay", "", number(value), "")
        for scenario, value in added_delays(samples)
    ]
    return list(table(("promise", "limit", "measured", "kept"), rows))


def _word(is_so: bool | None) -> str:
    return "not measured" if is_so is None else "yes" if is_so else "**no**"


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

"""What was measured, as tables for people and as figures for programs."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict
from typing import Any, NamedTuple

from app import __version__
from benchmarks import processes
from benchmarks.speed.figures import ALLOWED_EXCESS
from benchmarks.speed.samples import Samples, point_name
from benchmarks.speed.scenarios import RESTING, SCENARIOS
from benchmarks.speed.servers import GATEWAY, MODEL_SERVER, NGINX, PASSTHROUGH, PEERS
from benchmarks.speed.tables import number, spread, table, word
from benchmarks.speed.verdicts import added_delays, all_growth, verdicts


class _Row(NamedTuple):
    """A line of the first table: a figure of a scenario."""

    scenario: str
    title: str
    figure: str


_CPU_ANSWER, _CPU_TOKEN = "cpu_ms_per_answer", "cpu_us_per_token"
_ROWS = (
    _Row("answer-1", "ms CPU an answer", _CPU_ANSWER),
    _Row("answer-32", "ms CPU an answer", _CPU_ANSWER),
    _Row("answer-32", "answers a CPU second", "answers_per_cpu_second"),
    _Row("answer-256", "ms CPU an answer", _CPU_ANSWER),
    _Row("answer-256", "answers a CPU second", "answers_per_cpu_second"),
    _Row("remembered", "ms CPU an answer", _CPU_ANSWER),
    _Row("burst", "µs CPU a token", _CPU_TOKEN),
    *(
        row
        for streams in ("paced-5", "paced-20", "paced-500")
        for row in (
            _Row(streams, "µs CPU a token", _CPU_TOKEN),
            _Row(streams, "delay of a token, p50, ms", "delay_p50_ms"),
            _Row(streams, "delay of a token, p99, ms", "delay_p99_ms"),
            _Row(streams, "tokens a second", "tokens_per_second"),
        )
    ),
    _Row("first-event", "ms to the first event, p50", "first_event_p50_ms"),
    _Row("first-event", "ms to the first event, p99", "first_event_p99_ms"),
    _Row("first-event", "ms to the first token, p50", "first_token_p50_ms"),
    _Row(RESTING, "seconds to ready", "start_s"),
    _Row(RESTING, "seconds of CPU to ready", "start_cpu_s"),
    _Row(RESTING, "MB, idle", "idle_mb"),
    _Row(RESTING, "MB, idle after answers", "served_mb"),
    _Row(RESTING, "KiB a stream, journal apart", "kib_per_stream_without_journal"),
    _Row(RESTING, "KiB a stream in all", "kib_per_stream"),
    _Row(RESTING, "bytes of journal an event", "journal_bytes_per_event"),
)
_TITLES = {scenario.name: scenario.title for scenario in SCENARIOS} | {RESTING: "a gateway of its own"}
_SERVERS = (GATEWAY, PASSTHROUGH, NGINX, *PEERS)
_SATURATED = (("answer-32", "answers_per_second", "calls"), ("burst", "tokens_per_second", "tokens"))
"""Scenarios that keep a server as busy as can be, with what its model server must give a second."""


def markdown(samples: Samples) -> str:
    """The tables, with the place where they were measured above them."""
    where = machine()
    told = (
        f"Advisor Gateway {where['version']}, Python {where['python']}, {where['system']}, "
        f"{where['processors']} processors"
        f"{', servers and load on a core each' if where['pinned'] else ''}; "
        f"rounds: {samples.rounds}; load average at the end: {where['load_average'][0]:.1f}. "
        "Medians of the rounds (least to most)."
    )
    parts = (told, _judged(samples), _compared(samples), _grown(samples), _bottleneck(samples))
    return "\n\n".join(part for part in parts if part)


def figures(samples: Samples) -> dict[str, Any]:
    """All of it, for programs."""
    return {
        "machine": machine(),
        "settings": {name: value for name, value in os.environ.items() if name.startswith("GATEWAY_")},
        "verdicts": [{**asdict(one), "is_kept": one.is_kept} for one in verdicts(samples)],
        "growth": {
            sweep.name: {**asdict(growth), "is_linear_at_most": growth.is_linear_at_most}
            for sweep, growth in all_growth(samples)
        },
        "samples": [asdict(one) for one in samples.taken],
    }


def machine() -> dict[str, Any]:
    """Where it was measured, and what."""
    return {
        "version": __version__,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "load_average": list(os.getloadavg()),
        "pinned": processes.cores() != (None, None),
    }


def _judged(samples: Samples) -> str:
    rows = [
        (
            one.promise,
            f"{'at most' if one.at_most else 'at least'} {number(one.limit)}",
            number(one.value),
            word(one.is_kept),
        )
        for one in verdicts(samples)
    ]
    rows += [
        (
            f"{sweep.title}: cost over a straight line at the end",
            f"at most {ALLOWED_EXCESS:.0%}",
            f"{growth.excess:+.0%}",
            word(growth.is_linear_at_most),
        )
        for sweep, growth in all_growth(samples)
    ]
    rows += [
        (f"{_TITLES[scenario]}: delay times nginx's, without the harness's own", "", number(value), "")
        for scenario, value in added_delays(samples)
    ]
    return table(("promise", "limit", "measured", "kept"), rows)


def _compared(samples: Samples) -> str:
    servers = [name for name in (*_SERVERS, MODEL_SERVER) if any(one.server == name for one in samples.taken)]
    rows = [
        (
            _TITLES[row.scenario],
            row.title,
            *(spread(samples.spread(name, row.scenario, row.figure)) for name in servers),
        )
        for row in _ROWS
        if any(samples.spread(name, row.scenario, row.figure) for name in servers)
    ]
    return table(("scenario", "figure", *servers), rows)


def _grown(samples: Samples) -> str:
    rows = []
    for sweep, growth in all_growth(samples):
        is_of_tokens = sweep.figure == _CPU_TOKEN
        costs = ", ".join(
            f"{point.number}: {number(samples.least(GATEWAY, point_name(sweep.name, point.number), sweep.figure))}"
            for point in sweep.points
        )
        slope = f"{number(growth.slope * 1000)} {'ns' if is_of_tokens else 'µs'} each {sweep.each}"
        rows.append((sweep.title, f"{'µs CPU a token' if is_of_tokens else 'ms CPU an answer'}", costs, slope))
    return table(("against the number of", "figure", "cost", "slope"), rows)


def _bottleneck(samples: Samples) -> str:
    """What the model server gives when it is asked directly, beside what it had to give, and how busy it was then."""
    rows = []
    for scenario, figure, unit in _SATURATED:
        most = samples.median(MODEL_SERVER, scenario, figure)
        for name in _SERVERS:
            needed = samples.median(name, scenario, figure)
            if most is None or needed is None:
                continue
            needed *= 2 if unit == "calls" and name not in (NGINX, PASSTHROUGH) else 1
            shares = [
                f"{samples.median(name, scenario, share) or 0:.0%}"
                for share in ("cpu_share", "model_server_cpu_share", "load_cpu_share")
            ]
            rows.append(
                (
                    _TITLES[scenario],
                    name,
                    f"{number(needed)} {unit}",
                    f"{number(most)} {unit}",
                    f"{number(most / needed)} times",
                    *shares,
                )
            )
    head = (
        "scenario",
        "server",
        "needs a second",
        "model server can give",
        "spare",
        "server's core",
        "model server",
        "callers",
    )
    return table(head, rows)

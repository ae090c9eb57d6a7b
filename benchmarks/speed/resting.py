"""What a gateway takes that does little: the time to its start, memory when idle, and memory of open streams."""

from __future__ import annotations

import socket
import statistics
import time
from contextlib import suppress
from dataclasses import replace

from benchmarks import processes
from benchmarks.speed.loading import loading
from benchmarks.speed.measuring import Bench, asked, order_of
from benchmarks.speed.replies import arguments, pieces
from benchmarks.speed.scenarios import Scenario
from benchmarks.speed.servers import GATEWAY, Server, gateway
from benchmarks.speed.wrong import Wrong

STREAMS = 1_000
EVENTS_BEFORE_TEXT = 7 + len(pieces(arguments(0)))
"""Events of a stream before its first token: the run's, two rounds' and a tool call's."""
_READY = b"GET /readyz HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n\r\n"
_LOOK = 0.002
_PATIENCE = 55.0
_REST = 1.0
"""Seconds after which a gateway that has started is idle."""
_WARM = Scenario("warm-up", "", (GATEWAY,), 8, stream=True, seconds=0.5, tokens=20)
_OPENING = Scenario("open", "", (GATEWAY,), STREAMS, stream=True, seconds=0, tokens=60, pace=1_000_000, ramp=3.0)
"""A token a second: there is a minute for all to be open before the first one ends."""
_SAMPLED = replace(_OPENING, pace=250_000)
_ENDING = replace(_OPENING, pace=10_000)
_SAMPLES, _INTERVAL = 20, 0.25


def resting(bench: Bench, core: int | None) -> dict[str, float]:
    """Start a gateway, leave it alone, and open many streams. Returns figures by name, with their units in it."""
    with processes.on_core(core), gateway(bench.model.port, wait=False) as server:
        found = _start(server)
        time.sleep(_REST)
        found["idle_mb"] = _memory(server) / 1024
        bench.measure(server, _WARM)
        time.sleep(_REST)
        found["served_mb"] = _memory(server) / 1024
        return found | _streams(bench, server)


def _start(server: Server) -> dict[str, float]:
    """Wait until a gateway is ready. Its start is the moment before, in which the process was made."""
    while not _is_ready(server.port):
        if server.process.returncode is not None:
            raise server.process.failed("did not start")
        time.sleep(_LOOK)
    used = processes.cpu_seconds(processes.tree(server.process.pid))
    return {"start_s": time.monotonic() - server.started, "start_cpu_s": used}


def _is_ready(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(_READY)
        return connection.recv(64).startswith(b"HTTP/1.1 200")
    return False


def _streams(bench: Bench, server: Server) -> dict[str, float]:
    """Memory of open streams, with and without what the journals hold.

    While all streams are open only their journals grow, so a line through memory by the number of events tells what an
    event takes, and where it begins, at no events, what a stream takes without them.
    """
    bench.set_model(_OPENING)
    tokens, memory = _tokens(bench), _memory(server)
    samples: list[tuple[float, float]] = []
    with loading(order_of(server, _OPENING), bench.load_core) as load:
        load.begin()
        _wait_until_open(bench)
        bench.set_model(_SAMPLED)
        for _ in range(_SAMPLES):
            time.sleep(_INTERVAL)
            samples.append((_tokens(bench) - tokens + EVENTS_BEFORE_TEXT * STREAMS, _memory(server)))
        bench.set_model(_ENDING)
        load.wait()
        load.figures()
    line = statistics.linear_regression([events for events, _ in samples], [kib for _, kib in samples])
    an_event = max(0.0, line.slope)
    events, most = samples[-1]
    return {
        "kib_per_stream": (most - memory) / STREAMS,
        "kib_per_stream_without_journal": (most - events * an_event - memory) / STREAMS,
        "journal_bytes_per_event": an_event * 1024,
        "events_per_stream": events / STREAMS,
    }


def _wait_until_open(bench: Bench) -> None:
    deadline = time.monotonic() + _PATIENCE
    while (writing := asked(bench.model.port, "/counts")["writing"]) < STREAMS:
        if time.monotonic() > deadline:
            raise Wrong(f"after {_PATIENCE:.0f} s {writing} of {STREAMS} streams were open")
        time.sleep(_INTERVAL)


def _tokens(bench: Bench) -> float:
    return float(asked(bench.model.port, "/counts")["tokens"])


def _memory(server: Server) -> float:
    return processes.memory_kib(processes.tree(server.process.pid))

"""Schemathesis tries to find a request that is answered otherwise than the OpenAPI document says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.gateway_process import REPOSITORY, running_gateway

pytestmark = [pytest.mark.schemathesis, pytest.mark.server]

# In an environment of its own: its pytest plugin would be loaded into every run of our tests.
PROGRAM = Path(sys.prefix, "schemathesis", "bin", "schemathesis")
TIME = 300.0

GOOD = {
    ("POST", "/chat", 202),
    ("POST", "/chat/stream", 200),
    ("GET", "/runs", 200),
    ("GET", "/runs/{run_id}", 200),
    ("GET", "/runs/{run_id}/events", 200),
    ("GET", "/runs/{run_id}/events", 204),
    ("POST", "/runs/{run_id}/cancel", 202),
}
"""Answers that only requests about runs that are there can have."""


def test_schemathesis_finds_no_answer_that_the_document_does_not_promise(tmp_path: Path) -> None:
    if not PROGRAM.is_file():
        missing = "needs schemathesis, which `make schemathesis` installs"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    settings = f"--config-file={REPOSITORY / 'schemathesis.toml'}"
    effort = ["--max-examples=40", "--generation-deterministic", "--continue-on-failure"]
    with running_gateway() as gateway:
        document = f"{gateway.url}/openapi.json"
        done = subprocess.run(  # noqa: S603 - the tests' own command
            [PROGRAM, settings, "run", document, "--request-timeout=30", *effort],
            cwd=tmp_path,
            env=os.environ | {"NO_PROXY": "127.0.0.1"},
            capture_output=True,
            text=True,
            timeout=TIME,
            check=False,
        )
        answered = answers_in(gateway.log)

    assert done.returncode == 0, f"{done.stdout[-20_000:]}\n{done.stderr[-2_000:]}"
    assert " passed" in done.stdout
    assert answered >= GOOD, "it found no way from the run that it began to what can be asked of it"


def answers_in(log: str) -> set[tuple[str, str, int]]:
    """Method, route and status of every request in an access log."""
    requests = re.findall(r'"([A-Z]+) ([^ ?]+)\S* HTTP/1\.1" (\d+)', log)
    return {(method, re.sub(r"run_[0-9a-f]{32}", "{run_id}", path), int(status)) for method, path, status in requests}

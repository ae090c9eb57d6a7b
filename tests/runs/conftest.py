"""What tests of runs share: a time that need not be waited for."""

from __future__ import annotations

import pytest

from tests.support.loop_time import LoopTime


@pytest.fixture
async def time(monkeypatch: pytest.MonkeyPatch) -> LoopTime:
    """The time of the test's event loop."""
    return LoopTime(monkeypatch)

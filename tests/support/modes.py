"""The two ways to ask for everything; every behaviour of the chain is shown in both."""

from __future__ import annotations

import pytest

both_modes = pytest.mark.parametrize("stream", [False, True], ids=["call", "stream"])

"""The gateways that tests of runs ask: each test says what it is made of, and this file where runs are kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

import httpx
import pytest

from tests.support import web

Gateways: TypeAlias = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]
"""Makes a gateway; see `tests.support.web.gateway`."""


@pytest.fixture
def gateway() -> Gateways:
    return web.gateway

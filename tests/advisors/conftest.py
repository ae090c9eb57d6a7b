"""What the tests of the tool loop begin with."""

from __future__ import annotations

import pytest

from tests.advisors.looping import Weather


@pytest.fixture
def weather() -> Weather:
    """A tool that has not run yet."""
    return Weather()

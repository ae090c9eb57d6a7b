"""What the gateways that are measured are given: tools, and advisors that do nothing.

`GATEWAY_TOOLS__PACKAGES` names this module. The variable BENCHMARK_TOOLS says how many tools there are in all; all but
one are there to be offered only.
"""

from __future__ import annotations

import os
from contextlib import aclosing

from app.chat import BaseAdvisor, CallNext, ChatEvents, ChatRequest
from app.tooling import ToolCallback, tool
from benchmarks.speed.replies import RESULT

INSIDE_THE_LOOP = 500
"""The order of an advisor that sees each round."""


@tool
async def get_weather(city: str) -> str:
    """Get the weather for a city.

    Args:
        city: its name.
    """
    return RESULT


async def _other(city: str, days: int = 1) -> str:
    """Get what is to be known of a city.

    Args:
        city: its name.
        days: for how many days.
    """
    raise NotImplementedError(f"the model server asks for the weather only, not {city!r} {days}")


for _number in range(1, int(os.environ.get("BENCHMARK_TOOLS", "1"))):
    globals()[f"other_{_number}"] = ToolCallback.from_function(_other, name=f"get_other_{_number}")


class PassingOn(BaseAdvisor):
    """Looks at every event, and passes it on."""

    async def advise(self, request: ChatRequest, call_next: CallNext) -> ChatEvents:
        """See `Advisor.advise`."""
        async with aclosing(call_next(request)) as events:
            async for event in events:
                yield event


def passing_on() -> PassingOn:
    """An advisor that passes everything on."""
    return PassingOn(order=INSIDE_THE_LOOP)

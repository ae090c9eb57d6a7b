"""Advisors that several tests plug in."""

from __future__ import annotations

from contextlib import aclosing

from app.chat import BaseAdvisor, CallNext, ChatEvents, ChatRequest, Completed


class Silent(BaseAdvisor):
    """Breaks the invariant of the chain: its events end without the answer."""

    async def advise(self, request: ChatRequest, call_next: CallNext) -> ChatEvents:
        """All but the end."""
        async with aclosing(call_next(request)) as events:
            async for event in events:
                if not isinstance(event, Completed):
                    yield event

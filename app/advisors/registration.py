"""Which advisors a chain is made of: the tool loop joins, and a memory inside of it is put together rightly."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from app.advisors.memory import MemoryAdvisor
from app.advisors.tool_calling import ToolAdvisor, ToolCallingAdvisor
from app.chat import Advisor, ConfigurationError


def with_tool_loop(advisors: Iterable[Advisor], factory: Callable[[], ToolAdvisor]) -> tuple[Advisor, ...]:
    """The advisors with exactly one owner of the tool loop: theirs, or else one that the factory makes.

    A memory advisor inside the loop takes the history over from it, and keeps a turn from just outside of it:
    only there the turn's end is seen, however it ends.

    Raises:
        ConfigurationError: more than one of the advisors owns a loop.
    """
    given = tuple(advisors)
    owners = [advisor for advisor in given if isinstance(advisor, ToolAdvisor)]
    if len(owners) > 1:
        names = ", ".join(type(owner).__name__ for owner in owners)
        raise ConfigurationError(f"a chain has at most one ToolAdvisor, got {len(owners)}: {names}; leave one")
    loop = owners[0] if owners else factory()
    keepers: list[Advisor] = []
    others: list[Advisor] = []
    owner: ToolAdvisor = loop
    for advisor in given if owners else (*given, loop):
        if isinstance(advisor, MemoryAdvisor) and advisor.order > loop.order:
            if isinstance(loop, ToolCallingAdvisor):
                owner = loop.without_conversation_history()
            keep, recall = advisor.inside_loop(loop.order)
            keepers.append(keep)
            others.append(recall)
        else:
            others.append(advisor)
    # Equal orders keep the order of registration: who keeps the turn goes before the loop it watches.
    return (*keepers, *(owner if advisor is loop else advisor for advisor in others))


def without_tool_loop(advisors: Iterable[Advisor]) -> tuple[Advisor, ...]:
    """A chain's advisors without the owner of its tool loop: calls reach the caller unexecuted.

    Args:
        advisors: as `with_tool_loop` gave them. A memory inside of the loop is the same memory then, whoever runs
            the calls.
    """
    return tuple(advisor for advisor in advisors if not isinstance(advisor, ToolAdvisor))

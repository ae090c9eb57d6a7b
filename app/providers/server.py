"""What is known of one kind of model server."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.providers.profile import Profile

LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1", "host.docker.internal"})
"""Hosts on which a port tells the server; so does a name without a dot, as services in compose files have."""


@dataclass(frozen=True, slots=True)
class Server:
    """One kind of model server.

    Attributes:
        name: of its profile.
        title: what people call it.
        base_url: an example of where it is.
        profile: what it wants.
        hosts: where it is known to be, as patterns; hosts below them count, too.
        port: where it listens on a local host, if no other server is to be expected there.
        needs_key: whether it asks for a key.
        model: an example of a model's name.
        notes: what else to know.
        sources: where the flags come from.
    """

    name: str
    title: str
    base_url: str
    profile: Profile = field(default_factory=Profile)
    hosts: tuple[str, ...] = ()
    port: int | None = None
    needs_key: bool = True
    model: str = ""
    notes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

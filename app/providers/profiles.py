"""Which profile a model server has: the one that is named, or the one that its address tells."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from app.chat import ConfigurationError
from app.providers.profile import FLAGS, OPTION_FIELDS, Profile, Variant
from app.providers.server import LOCAL_HOSTS
from app.providers.servers import SERVERS

__all__ = ["DEFAULT", "FLAGS", "OPTION_FIELDS", "PROFILES", "Profile", "Variant", "profile_for"]

DEFAULT = "default"
"""The name of the profile that every server takes."""

PROFILES: Mapping[str, Profile] = MappingProxyType(
    {DEFAULT: Profile(), **{server.name: server.profile for server in SERVERS}}
)
"""Profiles by name."""


def profile_for(base_url: str, *, name: str | None = None, flags: Mapping[str, Any] | None = None) -> Profile:
    """The profile of the server at `base_url`.

    Args:
        base_url: where the server is; its host, or a local port, tells what it is if no name does.
        name: one of `PROFILES`.
        flags: fields of `Profile` that differ; they hold for all of the server's models. None is no flag, and lists
            stand for sets.

    Raises:
        ConfigurationError: there is no profile of that name, or no such flag.
    """
    if name is not None and name not in PROFILES:
        raise ConfigurationError(f"There is no profile {name!r} of model servers; {_known(name, PROFILES)}.")
    profile = PROFILES[name or _name_by_address(base_url)]
    said = {flag: value for flag, value in (flags or {}).items() if value is not None}
    for flag in said:
        if flag not in FLAGS:
            raise ConfigurationError(f"Profiles of model servers have no flag {flag!r}; {_known(flag, FLAGS)}.")
    return profile.with_flags({flag: frozenset(v) if isinstance(v, list | tuple) else v for flag, v in said.items()})


def _name_by_address(base_url: str) -> str:
    try:
        url = urlsplit(base_url)
        host, port = (url.hostname or "").rstrip("."), url.port
    except ValueError:  # the address is judged where it is used
        return DEFAULT
    for server in SERVERS:
        if any(fnmatchcase(host, pattern) or fnmatchcase(host, f"*.{pattern}") for pattern in server.hosts):
            return server.name
        if server.port is not None and port == server.port and (host in LOCAL_HOSTS or "." not in host):
            return server.name
    return DEFAULT


def _known(name: str, names: Any) -> str:
    near = get_close_matches(name, names, 1)
    return f"the nearest is {near[0]!r}" if near else "there are " + ", ".join(sorted(names))

"""Where a database is, as operators write it. No message repeats an address, since it may hold a password."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

from app.chat import ConfigurationError

_SQLITE = "sqlite:///"
_HOSTS = re.compile(r"(?:(?:\[[^\]]*\]|[^:\[\],]*)(?::\d+)?(?:,|$))*")
_NAMES = frozenset({"dbname", "database", "service"})
_TLS: Mapping[str, str] = {
    **{mode: mode for mode in ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")},
    **dict.fromkeys(("true", "yes", "on", "1"), "require"),
    **dict.fromkeys(("false", "no", "off", "0"), "disable"),
}
"""What `sslmode`, or `ssl` as other clients call it, may be, with its name in libpq."""

_RULE = "the memory's address must be a path, sqlite:///path, postgresql://user:password@host/name or memory://"


def sqlite_path(address: str) -> str | None:
    """The file of a SQLite database, None where the address is of PostgreSQL.

    Raises:
        ConfigurationError: it is neither.
    """
    if address.startswith(("postgresql://", "postgres://")):
        return None
    if "://" not in address:
        path = address
    elif not address.startswith(_SQLITE) or "?" in address:
        raise ConfigurationError(_RULE)
    else:
        path = address.removeprefix(_SQLITE)
    if not path or path == ":memory:" or "\0" in path:
        raise ConfigurationError(_RULE)
    return path


def postgresql_address(address: str) -> str:
    """The address in the form of libpq, which is what the driver reads.

    Raises:
        ConfigurationError: it cannot be one.
    """
    try:
        url = urlsplit(address)
        options = dict(parse_qsl(url.query, keep_blank_values=True, strict_parsing=bool(url.query)))
    except ValueError:
        raise ConfigurationError(_RULE) from None
    if not _is_whole(url, options):
        raise ConfigurationError(f"{_RULE}; in names and passwords write each of / @ : ? # % as a percent code")
    mode = options.pop("ssl", options.pop("sslmode", None))
    if mode is not None:
        if mode not in _TLS:
            raise ConfigurationError(f"sslmode in the memory's address must be one of {', '.join(_TLS)}")
        options["sslmode"] = _TLS[mode]
    options.setdefault("application_name", "advisor-gateway")
    return f"{url.scheme}://{url.netloc}{url.path}?{urlencode(options)}"


def _is_whole(url: SplitResult, options: Mapping[str, str]) -> bool:
    """Whether it names a database, and no part of a password has ended up in a wrong place."""
    _, _, hosts = url.netloc.rpartition("@")
    has_name = bool(url.path.removeprefix("/")) or bool(_NAMES & options.keys())
    return (
        has_name
        and url.netloc.count("@") <= 1
        and "@" not in url.path
        and not url.fragment
        and _HOSTS.fullmatch(hosts) is not None
    )

"""`docs/model-servers.md`, written from the table of model servers by `python -m tests.server_table`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from app.providers.profiles import FLAGS, Profile
from app.providers.server import Server

PAGE = Path(__file__).parents[1] / "docs" / "model-servers.md"
BEGIN = "<!-- Written by `python -m tests.server_table`; a test holds it to app/providers/servers.py. -->"
END = "<!-- End of what is written. -->"

_DEFAULTS = Profile()


def with_table(page: str, servers: tuple[Server, ...]) -> str:
    """The page with the table in its place."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(servers)}{END}{after}"


def table(servers: tuple[Server, ...]) -> str:
    """What each server needs, as Markdown."""
    return "\n".join([*_overview(servers), "", *(line for server in servers for line in _section(server))]) + "\n"


def _overview(servers: tuple[Server, ...]) -> Iterator[str]:
    yield "| server | profile | known by | needs |"
    yield "|---|---|---|---|"
    for server in servers:
        flags = ", ".join(f"`{name}`" for name in _differences(server.profile)) or "nothing"
        if server.profile.variants:
            flags += "; more for some models"
        yield f"| {server.title} | `{server.name}` | {_known_by(server)} | {flags} |"


def _known_by(server: Server) -> str:
    hosts = [f"`{host}`" for host in server.hosts]
    if server.port is not None:
        hosts.append(f"local port {server.port}")
    return ", ".join(hosts) or "its name only"


def _section(server: Server) -> Iterator[str]:
    yield f"### {server.title}"
    yield ""
    yield "```sh"
    yield f"GATEWAY_MODEL__BASE_URL={server.base_url}"
    if server.needs_key:
        yield "GATEWAY_MODEL__API_KEY=…"
    yield f'GATEWAY_MODEL__NAME="{server.model}"'
    if not server.hosts and server.port is None:
        yield f"GATEWAY_MODEL__PROFILE__NAME={server.name}"
    yield "```"
    yield ""
    for name, value in _differences(server.profile).items():
        yield f"- `{name}` = {_shown(value)}"
    for variant in server.profile.variants:
        flags = ", ".join(f"`{name}` = {_shown(value)}" for name, value in sorted(variant.flags.items()))
        yield f"- models `{variant.models}`: {flags}"
    for note in server.notes:
        yield f"- {note}"
    yield "- Sources: " + ", ".join(f"<{source}>" for source in server.sources)
    yield ""


def _differences(profile: Profile) -> dict[str, Any]:
    return {
        flag.name: value
        for flag in fields(Profile)
        if flag.name in FLAGS and (value := getattr(profile, flag.name)) != getattr(_DEFAULTS, flag.name)
    }


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return ", ".join(f"`{item}`" for item in sorted(value)) if isinstance(value, frozenset) else f"`{value}`"


if __name__ == "__main__":
    from app.providers.servers import SERVERS

    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), SERVERS), encoding="utf-8")

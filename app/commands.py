"""The commands: `serve`, `check`, `migrate` and `prune`.

Exit codes: 0 done, also after SIGTERM and Ctrl-C; 1 the configuration does not work, and the last lines on standard
error say why; 2 the command line is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from textwrap import shorten

from fastapi import FastAPI

from app.chat import ConfigurationError, GatewayError, Tool
from app.logs import configure_logging
from app.main import IN_MEMORY, chat_memory, create_app
from app.memory import ConversationStore
from app.providers.scrubbing import Scrubber
from app.serving import serve
from app.settings import Settings
from app.settings_sources import config_dir
from app.tooling import ToolCallback
from app.web import Gateway

_SETTINGS = """
Settings come from arguments, the environment (GATEWAY_SERVER__PORT=8000), .env, and gateway.toml in ./config or
$GATEWAY_CONFIG_DIR, the first of them that has a value. Without any, the built-in demo model answers. A model server
is set by GATEWAY_MODEL__BASE_URL, GATEWAY_MODEL__NAME and GATEWAY_MODEL__API_KEY.
"""
_WIDEST = 72
_LONGEST = 36_500
"""Days of a hundred years."""


def run(arguments: Sequence[str]) -> int:
    """Run a command.

    Args:
        arguments: the command line.

    Returns:
        The exit code.
    """
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except GatewayError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m app", description="Tool-calling chat over HTTP.", epilog=_SETTINGS, allow_abbrev=False
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    serving = commands.add_parser("serve", help="serve until SIGTERM or Ctrl-C", epilog=_SETTINGS, allow_abbrev=False)
    serving.add_argument("--host", help="address to listen on (GATEWAY_SERVER__HOST)")
    serving.add_argument("--port", type=int, help="port to listen on, 0 for any free one (GATEWAY_SERVER__PORT)")
    serving.set_defaults(run=_serve)
    checking = commands.add_parser(
        "check", help="validate settings and tools, and show the tools", epilog=_SETTINGS, allow_abbrev=False
    )
    checking.set_defaults(run=_check)
    migrating = commands.add_parser(
        "migrate", help="bring the memory's database up to date", epilog=_SETTINGS, allow_abbrev=False
    )
    migrating.set_defaults(run=_migrate)
    pruning = commands.add_parser(
        "prune", help="forget conversations that nobody added to", epilog=_SETTINGS, allow_abbrev=False
    )
    pruning.add_argument(
        "--older-than", type=_days, metavar="DAYS", help="days since their last turn (GATEWAY_MEMORY__KEEP_DAYS)"
    )
    pruning.set_defaults(run=_prune)
    return parser


def _serve(options: argparse.Namespace) -> None:
    given = {"host": options.host, "port": options.port}
    settings = Settings(server={name: value for name, value in given.items() if value is not None})
    _log(settings, settings.logging.level)
    server = settings.server
    serve(
        create_app(settings),
        server.host,
        server.port,
        forwarded_allow_ips=server.forwarded_allow_ips,
        keep_alive=server.keep_alive,
    )


def _check(_: argparse.Namespace) -> None:
    settings = Settings()
    _log(settings, settings.logging.level or "warning")
    sys.stdout.write(asyncio.run(_report(create_app(settings))))


def _days(text: str) -> float:
    rule = argparse.ArgumentTypeError(f"must be a number of days, from 0 to {_LONGEST}")
    try:
        days = float(text)
    except ValueError:
        raise rule from None
    if not 0 <= days <= _LONGEST:
        raise rule
    return days


def _migrate(_: argparse.Namespace) -> None:
    settings = Settings()
    _log(settings, settings.logging.level or "warning")
    if settings.memory.address == IN_MEMORY:
        sys.stdout.write("The memory is in the process: there is nothing to bring up to date.\n")
        return
    revision = asyncio.run(_upgraded(settings.memory.address))
    sys.stdout.write(f"The memory's database has the tables of {revision}.\n")


async def _upgraded(address: str) -> str:
    from app.memory.sql import Database, migrate  # noqa: PLC0415 - takes a while, and serving need not wait for it

    database = Database(address)
    try:
        return await migrate(database)
    finally:
        await database.aclose()


def _prune(options: argparse.Namespace) -> None:
    settings = Settings()
    _log(settings, settings.logging.level or "warning")
    days = settings.memory.keep_days if options.older_than is None else options.older_than
    if days is None:
        raise ConfigurationError("say how old: --older-than DAYS, or GATEWAY_MEMORY__KEEP_DAYS")
    if settings.memory.address == IN_MEMORY:
        sys.stdout.write("The memory is in the process: there is nothing to forget.\n")
        return
    count = asyncio.run(_forget(chat_memory(settings.memory), timedelta(days=days)))
    sys.stdout.write(f"Forgot {count} conversations.\n")


async def _forget(memory: ConversationStore, age: timedelta) -> int:
    try:
        await memory.start()
        return await memory.prune(datetime.now(UTC) - age)
    finally:
        await memory.aclose()


def _log(settings: Settings, level: str | None) -> None:
    servers = (settings.model, *(target for targets in settings.models.values() for target in targets))
    secrets = [secret for server in servers for secret in server.secrets]
    secrets += settings.passwords
    configure_logging(config_dir() / "logging.toml", level=level, scrub=Scrubber(secrets))


async def _report(app: FastAPI) -> str:
    """Start the application for real, only without listening, and tell what it found."""
    async with app.router.lifespan_context(app) as state:
        gateway: Gateway = (state or {})["gateway"]
        tools = gateway.client.tools
        return "\n".join([f"Model: {gateway.client.model.name}", f"Tools: {len(tools)}", *_table(tools), ""])


def _table(tools: Sequence[Tool]) -> list[str]:
    rows = [("NAME", "DEFAULT", "SOURCE", "DESCRIPTION"), *map(_row, tools)] if tools else []
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _row(tool: Tool) -> tuple[str, str, str, str]:
    source = tool.source if isinstance(tool, ToolCallback) else type(tool).__qualname__
    first_line = tool.definition.description.strip().partition("\n")[0]
    offered = "yes" if tool.metadata.default else "no"
    return tool.definition.name, offered, source, shorten(first_line, _WIDEST, placeholder="...")

"""The page on model servers says what the table of profiles says."""

from __future__ import annotations

from app.providers.profiles import FLAGS
from app.providers.servers import SERVERS
from tests.server_table import PAGE, with_table


def test_the_page_on_model_servers_follows_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert page == with_table(page, SERVERS), "write it anew with: python -m tests.server_table"
    assert all(f"`{server.name}`" in page for server in SERVERS)


def test_the_page_on_model_servers_explains_every_flag() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert [flag for flag in FLAGS if f"| `{flag}` |" not in page] == []

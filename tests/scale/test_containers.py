"""The containers themselves: what they may do, what they are told, and what comes before what."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from tests.scale.caller import Script
from tests.scale.stack import Container, Stack, command, docker, logs, until
from tests.support.gateway_process import REPOSITORY

pytestmark = [pytest.mark.scale, pytest.mark.server]

SERVICES = ("replica", "proxy", "redis", "postgres")


async def test_the_tables_were_brought_up_to_date_once_before_the_replicas_came(stack: Stack) -> None:
    migrate = await stack.container("migrate")

    assert migrate.details["State"]["Status"] == "exited"
    assert migrate.details["State"]["ExitCode"] == 0
    assert (await logs(migrate)).count("The memory's database has") == 1
    for replica in await stack.replicas():
        assert migrate.details["State"]["FinishedAt"] <= replica.details["State"]["StartedAt"]


async def test_nobody_is_root_or_may_write_but_where_there_is_something_to_keep(stack: Stack) -> None:
    for service in SERVICES:
        for container in await stack.containers(service):
            host = container.details["HostConfig"]
            assert host["ReadonlyRootfs"], service
            assert "ALL" in host["CapDrop"], service
            assert "no-new-privileges:true" in host["SecurityOpt"], service
            assert host["Memory"] > 0, service
            assert host["RestartPolicy"]["Name"] == "unless-stopped", service
            status = await docker("exec", container.id, "cat", "/proc/1/status")
            fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
            assert "0" not in fields["Uid"].split(), (service, fields["Uid"])
            assert int(fields["CapEff"], 16) == 0, (service, fields["CapEff"])
            kept = {mount["Destination"] for mount in container.details["Mounts"] if mount["RW"]}
            assert kept == {"redis": {"/data"}, "postgres": {"/var/lib/postgresql/data"}}.get(service, set()), service


async def test_no_secret_is_in_what_the_engine_shows(stack: Stack) -> None:
    secrets = [path.read_text().split()[-1] for path in await _secret_files() if path.stat().st_size]
    for service in (*SERVICES, "migrate"):
        for container in await stack.containers(service):
            shown = json.dumps(container.details) + (await logs(container))
            if container.is_running:
                shown += await docker("top", container.id)
            assert [secret for secret in secrets if secret in shown] == [], service


async def test_redis_and_the_database_meet_replicas_only(stack: Stack) -> None:
    reached = {service: _networks(await stack.containers(service)) for service in SERVICES}

    assert reached["proxy"].isdisjoint(reached["redis"] | reached["postgres"])
    assert reached["redis"].isdisjoint(reached["postgres"])
    for name in reached["redis"] | reached["postgres"]:
        (network,) = json.loads(await docker("network", "inspect", name))
        assert network["Internal"], name
    for service in ("redis", "postgres"):
        ports = (await stack.container(service)).details["NetworkSettings"]["Ports"]
        assert not any(ports.values()), service


async def test_what_the_proxy_says_by_itself_is_a_problem_document(stack: Stack, client: httpx.AsyncClient) -> None:
    too_large = await client.post(f"{stack.proxy}/chat", content=b" " * (4 * 2**20 + 1))
    named = {"X-Request-ID": "mine"}
    async with stack.killed(*await stack.replicas()):
        unreachable = await client.get(f"{stack.proxy}/tools", headers=named)

    assert too_large.status_code == 413
    assert too_large.json()["type"] == "urn:advisor-gateway:body-too-large"
    assert unreachable.json()["status"] == unreachable.status_code == 502
    assert unreachable.headers["Content-Type"] == "application/problem+json"
    assert unreachable.headers["X-Request-ID"] == unreachable.json()["request_id"] == "mine"
    assert unreachable.headers["Retry-After"] == "1"


async def test_the_callers_address_is_what_the_proxy_says_and_not_the_caller(
    stack: Stack, client: httpx.AsyncClient
) -> None:
    script = Script(words=1)
    lied = {"X-Forwarded-For": "203.0.113.7", "X-Request-ID": script.name}
    answer = await client.post(f"{stack.proxy}/chat", json={"message": script.message}, headers=lied)
    proxied = _addresses([await stack.container("proxy")])

    assert answer.headers["X-Request-ID"] == script.name
    written = [await logs(replica) for replica in await stack.replicas()]
    (line,) = [line for log in written for line in log.splitlines() if script.name in line and "POST /chat" in line]
    assert "203.0.113.7" not in line
    assert not any(address in line for address in proxied), line


async def test_both_replicas_have_work_from_the_proxy(stack: Stack, client: httpx.AsyncClient) -> None:
    scripts = [Script(words=1) for _ in range(40)]
    for script in scripts:
        named = {"X-Request-ID": script.name}
        answer = await client.post(f"{stack.proxy}/chat", json={"message": script.message}, headers=named)
        assert answer.json()["content"] == script.answer(), answer.text

    written = [await logs(replica) for replica in await stack.replicas()]
    assert all(any(script.name in log for script in scripts) for log in written)


async def test_a_replica_that_died_is_started_again(stack: Stack, client: httpx.AsyncClient) -> None:
    one, _ = await stack.replicas()
    pid = one.details["State"]["Pid"]
    kill = [
        "--pid=host",
        "--user=0",
        "--entrypoint=python",
        one.details["Image"],
        "-c",
        f"import os; os.kill({pid}, 9)",
    ]
    await docker("run", "--rm", *kill)

    async def is_back() -> bool:
        (found,) = [replica for replica in await stack.containers("replica") if replica.id == one.id]
        return found.is_healthy and found.details["RestartCount"] > one.details["RestartCount"]

    await until(is_back, "the replica is back")
    assert (await client.get(f"{stack.proxy}/readyz")).status_code == 200


def _networks(containers: list[Container]) -> set[str]:
    return {name for one in containers for name in one.details["NetworkSettings"]["Networks"]}


def _addresses(containers: list[Container]) -> list[str]:
    return [
        network["IPAddress"] for one in containers for network in one.details["NetworkSettings"]["Networks"].values()
    ]


async def _secret_files() -> list[Path]:
    found = json.loads(await command("docker", "compose", "--profile", "scale", "config", "--format", "json"))
    return [REPOSITORY / secret["file"] for secret in found["secrets"].values()]

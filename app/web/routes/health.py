"""Whether the process lives and whether it can serve, for whoever restarts and balances."""

from __future__ import annotations

from typing import Any

from fastapi import Response

from app.chat import TargetState
from app.web import openapi, routing
from app.web.dependencies import CurrentGateway
from app.web.documents import AliveDocument, ReadyDocument
from app.web.encoding import json_response

router = routing.router("health")


@router.head("/healthz", include_in_schema=False)
@router.get("/healthz", responses=openapi.answers(AliveDocument))
async def alive() -> Response:
    """Say that the process answers."""
    return json_response({"status": "alive"})


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz", responses=openapi.answers(ReadyDocument, 503))
async def ready(gateway: CurrentGateway) -> Response:
    """Say that requests are taken, which model answers them, and how its servers did lately. None of them is asked.

    Where replicas share a Redis it says whether that answered the last time. A replica is ready without it too: it
    refuses what has to be shared, and does the rest.
    """
    gateway.runs.check_open()
    available = gateway.runs.store.available
    shared = {} if available is None else {"shared": "available" if available else "unavailable"}
    note = {} if gateway.demo_note is None else {"note": gateway.demo_note}
    targets = [_target(state) for state in gateway.client.targets]
    return json_response(
        {
            "status": "ready",
            "model": gateway.client.model.name,
            "demo": gateway.demo_note is not None,
            **({"targets": targets} if targets else {}),
            **shared,
            **note,
        }
    )


def _target(state: TargetState) -> dict[str, Any]:
    name = {} if state.name is None else {"target": state.name}
    return {
        "alias": state.alias,
        **name,
        "breaker": state.breaker,
        "active": state.active,
        "waiting": state.waiting,
    }

"""Clients that others wrote come back to a run when their line is cut, and have each event once."""

from __future__ import annotations

import asyncio

import pytest

from tests.peers.readers import PATIENCE, Follower, followed_by_eventsource, followed_by_fetch_event_source, needed
from tests.support.telling import Event, telling

pytestmark = [pytest.mark.peers, pytest.mark.server]


# fetch-event-source takes an event for read as soon as it has seen its id: one that is cut after that it loses.
@pytest.mark.parametrize(
    ("follow", "tears"), [(followed_by_eventsource, True), (followed_by_fetch_event_source, False)]
)
async def test_a_peer_that_is_cut_off_comes_back_for_what_it_lacks(follow: Follower, tears: bool) -> None:
    needed()
    async with telling(pace=0.02, life=0.3, tears=tears) as told:
        body = {"message": "Tell me all.", "on_disconnect": "continue"}
        async with told.client.stream("POST", "/chat/stream", json=body) as response:
            url = told.line.url + response.headers["location"]
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
            following = tasks.create_task(asyncio.to_thread(follow, url))
            await told.end_after_cuts(2)

        events = [Event(event.id or "", event.name or "", event.data) for event in following.result()]
        await told.assert_told(events)

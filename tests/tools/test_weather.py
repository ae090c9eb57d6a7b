"""The weather: from the bundled table, and from a service that is well, wrong or slow."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import pytest

from app.chat import Progress
from app.tooling import ToolContext, ToolFailed
from tests.support.gates import PATIENCE
from tools.weather import Weather, get_weather

PARIS = {"results": [{"name": "Paris", "country": "France", "latitude": 48.85, "longitude": 2.35, "id": 1}]}
NOW = {"temperature_2m": 17.4, "relative_humidity_2m": 68, "wind_speed_10m": 14.2, "weather_code": 61}
FORECAST = {"current": NOW, "timezone": "GMT"}


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WEATHER_BASE_URL", "WEATHER_GEOCODING_URL", "WEATHER_TIMEOUT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "*")


class Service:
    """A weather service on loopback, with an answer (a body, a status, or None for silence) for each path.

    Attributes:
        url: its base URL.
        open: an event for each connection, set when it has ended.
        asked: paths and queries of all requests.
    """

    def __init__(self, **answers: object) -> None:
        self.answers = answers
        self.url = ""
        self.open: set[asyncio.Event] = set()
        self.asked: list[tuple[str, dict[str, list[str]]]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end."""
        self.open.add(ended := asyncio.Event())
        try:
            await self._answer(reader, writer)
        finally:
            writer.close()
            ended.set()

    async def closed(self) -> None:
        """Wait until no connection is open."""
        async with asyncio.timeout(PATIENCE):
            for ended in self.open:
                await ended.wait()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await reader.readline():
            while await reader.readline() not in {b"\r\n", b""}:
                pass
            target = urlsplit(request.split()[1].decode())
            name = target.path.rpartition("/")[2]
            self.asked.append((target.path, parse_qs(target.query)))
            given = self.answers[name]
            status = given if isinstance(given, int) else 200
            body = given if isinstance(given, bytes) else json.dumps(given).encode()
            if given is not None:
                writer.write(b"HTTP/1.1 %d Said\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body))


@asynccontextmanager
async def running(monkeypatch: pytest.MonkeyPatch, **answers: object) -> AsyncIterator[Service]:
    """A service that the tool is pointed at."""
    service = Service(**answers)
    server = await asyncio.start_server(service.serve, "127.0.0.1", 0)
    service.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    monkeypatch.setenv("WEATHER_BASE_URL", f"{service.url}/")
    try:
        yield service
    finally:
        server.close()
        await server.wait_closed()
        await service.closed()


def listening() -> tuple[ToolContext, list[Progress]]:
    """A context, and what is reported to it."""
    reports: list[Progress] = []
    return ToolContext(listener=reports.append), reports


async def test_without_a_service_the_answer_is_a_sample_and_says_so() -> None:
    context, reports = listening()

    told = await get_weather("Paris", context)

    assert (told.city, told.country, told.unit) == ("Paris", "France", "celsius")
    assert "offline sample" in told.source
    assert "not real" in told.source
    assert reports == [Progress("Looking for Paris", 0, 2), Progress("Reading the weather of Paris", 1, 2)]


@pytest.mark.parametrize("city", ["new york", "NEW YORK", " New York ", "New York, United States"])
async def test_cities_are_found_however_they_are_written(city: str) -> None:
    assert (await get_weather(city, ToolContext())).city == "New York"


async def test_the_unit_is_the_one_asked_for() -> None:
    celsius = await get_weather("Oslo", ToolContext())
    fahrenheit = await get_weather("Oslo", ToolContext(), "fahrenheit")

    assert fahrenheit.unit == "fahrenheit"
    assert fahrenheit.temperature == pytest.approx(celsius.temperature * 1.8 + 32, abs=0.06)


@pytest.mark.parametrize(
    ("city", "hint"), [("Lodnon", "Did you mean London?"), ("Atlantis", "It has large ones"), ("", "It has large ones")]
)
async def test_an_unknown_city_is_refused_with_cities_that_may_have_been_meant(city: str, hint: str) -> None:
    with pytest.raises(ToolFailed, match=re.escape(hint)):
        await get_weather(city, ToolContext())


@pytest.mark.server
async def test_the_service_is_asked_for_the_place_and_then_for_its_weather(monkeypatch: pytest.MonkeyPatch) -> None:
    context, reports = listening()
    async with running(monkeypatch, search=PARIS, forecast=FORECAST) as service:
        told = await get_weather("paris", context, "fahrenheit")

    assert told == Weather("Paris", "France", 17.4, "fahrenheit", "rain", 68, 14.2, "127.0.0.1")
    (search, place), (forecast, query) = service.asked
    assert (search, forecast) == ("/v1/search", "/v1/forecast")
    assert place["name"] == ["paris"]
    assert (query["latitude"], query["longitude"], query["temperature_unit"]) == (["48.85"], ["2.35"], ["fahrenheit"])
    assert query["current"] == ["temperature_2m,relative_humidity_2m,wind_speed_10m,weather_code"]
    assert reports == [Progress("Looking for paris", 0, 2), Progress("Asking for the weather in Paris", 1, 2)]


@pytest.mark.server
async def test_places_may_be_looked_up_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch, search=PARIS) as places, running(monkeypatch, forecast=FORECAST) as service:
        monkeypatch.setenv("WEATHER_GEOCODING_URL", places.url)
        await get_weather("Paris", ToolContext())

    assert [path for path, _ in places.asked] == ["/v1/search"]
    assert [path for path, _ in service.asked] == ["/v1/forecast"]


@pytest.mark.server
@pytest.mark.parametrize(
    ("code", "conditions"),
    [(0, "clear sky"), (1, "partly cloudy"), (45, "fog"), (71, "snow"), (95, "thunderstorm"), (120, "unknown")],
)
async def test_the_code_of_the_sky_becomes_words(monkeypatch: pytest.MonkeyPatch, code: int, conditions: str) -> None:
    async with running(monkeypatch, search=PARIS, forecast={"current": {**NOW, "weather_code": code}}):
        assert (await get_weather("Paris", ToolContext())).conditions == conditions


@pytest.mark.server
@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ({"search": {}}, "knows no city named 'Paris'"),
        ({"search": {"results": []}}, "knows no city named 'Paris'"),
        ({"search": 500}, "answered with status 500"),
        ({"search": 301}, "answered with status 301"),
        ({"search": b"<html>"}, "cannot be understood"),
        ({"search": {"results": [{"name": "Paris"}]}}, "cannot be understood"),
        ({"search": PARIS, "forecast": 429}, "answered with status 429"),
        ({"search": PARIS, "forecast": {"current": {**NOW, "temperature_2m": "warm"}}}, "cannot be understood"),
    ],
)
async def test_a_service_that_is_wrong_is_told_without_its_address(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, object], reason: str
) -> None:
    async with running(monkeypatch, **answers):
        with pytest.raises(ToolFailed, match=reason) as failed:
            await get_weather("Paris", ToolContext())

    assert "127.0.0.1" not in str(failed.value)


@pytest.mark.server
async def test_a_service_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEATHER_TIMEOUT", "0.05")
    async with running(monkeypatch, search=None):
        with pytest.raises(ToolFailed, match="did not answer in time"):
            await get_weather("Paris", ToolContext())


@pytest.mark.parametrize("seconds", ["soon", "-1", "0", "nan"])
async def test_a_timeout_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, seconds: str) -> None:
    monkeypatch.setenv("WEATHER_BASE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("WEATHER_TIMEOUT", seconds)

    with pytest.raises(ToolFailed, match="WEATHER_TIMEOUT must be a number of seconds above 0"):
        await get_weather("Paris", ToolContext())


@pytest.mark.server
@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://", "nonsense", "http://127.0.0.1:notaport", "ftp://x"])
async def test_a_service_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("WEATHER_BASE_URL", url)

    with pytest.raises(ToolFailed, match="cannot be reached"):
        await get_weather("Paris", ToolContext())


@pytest.mark.server
@pytest.mark.fault("X04")
@pytest.mark.parametrize(
    "city", ["http://169.254.169.254/latest", "//127.0.0.1:1/x", "../../admin", "Paris&name=Oslo#", "@127.0.0.1"]
)
async def test_a_city_is_only_ever_a_query_to_the_operators_own_service(
    monkeypatch: pytest.MonkeyPatch, city: str
) -> None:
    async with running(monkeypatch, search=PARIS, forecast=FORECAST) as service:
        await get_weather(city, ToolContext())

    assert [path for path, _ in service.asked] == ["/v1/search", "/v1/forecast"]
    assert service.asked[0][1]["name"] == [city]


@pytest.mark.server
@pytest.mark.fault("X04")
async def test_the_service_cannot_send_the_tool_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(monkeypatch, search=302, forecast=FORECAST) as service:
        with pytest.raises(ToolFailed, match="status 302"):
            await get_weather("Paris", ToolContext())

    assert [path for path, _ in service.asked] == ["/v1/search"]

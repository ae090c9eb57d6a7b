"""The weather: an asynchronous tool that calls an HTTP service, reports its progress and checks what comes back.

Out of the box it answers from a bundled table of made-up weather and says so. For real weather, point
`WEATHER_BASE_URL` at a server that speaks the API of Open-Meteo, which is free for non-commercial use and needs no key:

    WEATHER_BASE_URL=https://api.open-meteo.com/v1
    WEATHER_GEOCODING_URL=https://geocoding-api.open-meteo.com/v1

Two requests are made of it. Fields not named here are ignored:

    GET {WEATHER_GEOCODING_URL}/search?name=Paris&count=1&language=en&format=json
    {"results": [{"name": "Paris", "country": "France", "latitude": 48.85, "longitude": 2.35}]}

    GET {WEATHER_BASE_URL}/forecast?latitude=48.85&longitude=2.35&current=temperature_2m,…&temperature_unit=celsius
    {"current": {"temperature_2m": 17.4, "relative_humidity_2m": 68, "wind_speed_10m": 14.2, "weather_code": 61}}

Without `WEATHER_GEOCODING_URL` both go to `WEATHER_BASE_URL`. `WEATHER_TIMEOUT` is how many seconds the service has for
each step of an answer, 10 unless set. The variables are read at every call.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, TypeAdapter, ValidationError

from app.tooling import ToolContext, ToolFailed, ToolParam, tool

if TYPE_CHECKING:
    import httpx  # else where it is needed: the bundled table does without, and it takes a while to load

_TABLE = Path(__file__).with_name("weather_sample.json")
_CURRENT = "temperature_2m,relative_humidity_2m,wind_speed_10m,weather_code"
# https://open-meteo.com/en/docs, "WMO Weather interpretation codes": the code of the table below is the first that is
# not smaller.
_CONDITIONS = (
    (0, "clear sky"),
    (2, "partly cloudy"),
    (3, "overcast"),
    (48, "fog"),
    (57, "drizzle"),
    (67, "rain"),
    (77, "snow"),
    (82, "rain showers"),
    (86, "snow showers"),
    (99, "thunderstorm"),
)


@dataclass(frozen=True, slots=True)
class Weather:
    """The weather in a city.

    Attributes:
        city: the city's name as the source has it.
        country: the country it lies in.
        temperature: in the unit that was asked for.
        unit: that unit.
        conditions: the sky, in words.
        humidity: relative, in percent.
        wind_kmh: wind speed in kilometres per hour.
        source: where this comes from.
    """

    city: str
    country: str
    temperature: float
    unit: Literal["celsius", "fahrenheit"]
    conditions: str
    humidity: float
    wind_kmh: float
    source: str


@tool(timeout=25, idempotent=True)
async def get_weather(
    city: Annotated[str, ToolParam(description="Name of the city, such as Paris")],
    context: ToolContext,
    unit: Annotated[Literal["celsius", "fahrenheit"], ToolParam(description="Unit of the temperature")] = "celsius",
) -> Weather:
    """Tell the current weather in a city: temperature, conditions, humidity and wind."""
    base_url = _setting("WEATHER_BASE_URL")
    context.progress(f"Looking for {city}", current=0, total=2)
    if not base_url:
        name = _name_in_table(city)
        context.progress(f"Reading the weather of {name}", current=1, total=2)
        return _from_table(name, unit)
    import httpx  # noqa: PLC0415 - see above

    async with httpx.AsyncClient(timeout=_timeout(), verify=_certificates()) as client:
        place = await _place(client, _setting("WEATHER_GEOCODING_URL") or base_url, city)
        context.progress(f"Asking for the weather in {place.name}", current=1, total=2)
        return await _weather(client, base_url, place, unit)


def _setting(name: str) -> str:
    return os.environ.get(name, "").strip().rstrip("/")


def _timeout() -> float:
    """Seconds in which the service must connect, and send each part of an answer."""
    try:
        seconds = float(_setting("WEATHER_TIMEOUT") or 10)
    except ValueError:
        seconds = 0
    if not seconds > 0:  # NaN too
        raise ToolFailed("The tool is set up wrongly: WEATHER_TIMEOUT must be a number of seconds above 0.")
    return seconds


@cache
def _certificates() -> ssl.SSLContext:
    """Loaded once: it takes longer than a request."""
    import httpx  # noqa: PLC0415 - see above

    return httpx.create_ssl_context()


class _Place(BaseModel):
    name: str
    country: str = ""
    latitude: float
    longitude: float


class _Places(BaseModel):
    results: list[_Place] = []


class _Current(BaseModel):
    temperature_2m: float
    relative_humidity_2m: float
    wind_speed_10m: float
    weather_code: int


class _Forecast(BaseModel):
    current: _Current


ModelT = TypeVar("ModelT", bound=BaseModel)


async def _place(client: httpx.AsyncClient, url: str, city: str) -> _Place:
    query = {"name": city, "count": "1", "language": "en", "format": "json"}
    found = await _get(client, f"{url}/search", query, _Places)
    if not found.results:
        raise ToolFailed(f"The weather service knows no city named {city!r}. Try its English name without the country.")
    return found.results[0]


async def _weather(
    client: httpx.AsyncClient, url: str, place: _Place, unit: Literal["celsius", "fahrenheit"]
) -> Weather:
    query = {
        "latitude": str(place.latitude),
        "longitude": str(place.longitude),
        "current": _CURRENT,
        "temperature_unit": unit,
    }
    now = (await _get(client, f"{url}/forecast", query, _Forecast)).current
    return Weather(
        city=place.name,
        country=place.country,
        temperature=now.temperature_2m,
        unit=unit,
        conditions=next((words for code, words in _CONDITIONS if now.weather_code <= code), "unknown"),
        humidity=now.relative_humidity_2m,
        wind_kmh=now.wind_speed_10m,
        source=urlsplit(url).hostname or "",
    )


async def _get(client: httpx.AsyncClient, url: str, query: dict[str, str], shape: type[ModelT]) -> ModelT:
    """The answer to a request, checked. Errors say what the model can tell its user, and never the URL."""
    import httpx  # noqa: PLC0415 - see above

    try:
        response = await client.get(url, params=query)
        response.raise_for_status()
        return shape.model_validate_json(response.content)
    except httpx.TimeoutException as error:
        raise ToolFailed("The weather service did not answer in time. Try again later.") from error
    except httpx.HTTPStatusError as error:
        raise ToolFailed(f"The weather service answered with status {error.response.status_code}.") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ToolFailed("The weather service cannot be reached.") from error
    except ValidationError as error:
        raise ToolFailed("The weather service gave an answer that cannot be understood.") from error


class _Sample(BaseModel):
    country: str
    temperature: float
    conditions: str
    humidity: float
    wind_kmh: float


@cache
def _table() -> dict[str, _Sample]:
    return TypeAdapter(dict[str, _Sample]).validate_json(_TABLE.read_bytes())


def _name_in_table(city: str) -> str:
    names = {name.casefold(): name for name in _table()}
    wanted = city.partition(",")[0].strip().casefold()
    if wanted in names:
        return names[wanted]
    near = [names[match] for match in get_close_matches(wanted, names, n=3)]
    hint = f"Did you mean {' or '.join(near)}?" if near else "It has large ones, such as Cairo, New York or Paris."
    raise ToolFailed(f"The offline sample has no city {city!r}. {hint}")


def _from_table(name: str, unit: Literal["celsius", "fahrenheit"]) -> Weather:
    sample = _table()[name]
    return Weather(
        city=name,
        country=sample.country,
        temperature=sample.temperature if unit == "celsius" else round(sample.temperature * 9 / 5 + 32, 1),
        unit=unit,
        conditions=sample.conditions,
        humidity=sample.humidity,
        wind_kmh=sample.wind_kmh,
        source="offline sample data, not real weather",
    )

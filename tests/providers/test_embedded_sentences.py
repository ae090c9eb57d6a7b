"""Sentences that people try first, and the calls the demo model makes of them, with two dozen tools at once."""

from __future__ import annotations

from typing import Any

import pytest

from app.chat import Prompt, UserMessage
from app.providers.embedded import DemoModel
from tests.support.offering import Asked, asked, number, offered, several, talk, text, whole

CURRENCY = "ISO code, such as USD"
TOOLS = (
    offered(
        "get_weather",
        "Current weather in a city.",
        {
            "city": text("Name of the city, such as Paris"),
            "units": text(enum=["celsius", "fahrenheit"], default="celsius"),
        },
        required=["city"],
    ),
    offered(
        "current_time",
        "The current date and time in a time zone.",
        {"zone": text("IANA time zone, such as Asia/Tokyo", default="UTC")},
        required=[],
    ),
    offered(
        "days_between",
        "Number of days from one date to another.",
        {"start": text("First date", format="date"), "end": text("Last date", format="date")},
    ),
    offered(
        "add_to_date",
        "The date some days, weeks or months after another.",
        {
            "date": text("Date to count from", format="date"),
            "days": whole("Days to add", default=0),
            "weeks": whole("Weeks to add", default=0),
            "months": whole("Months to add", default=0),
        },
        required=["date"],
    ),
    offered(
        "calculate",
        "Evaluate an arithmetic expression.",
        {"expression": text("Arithmetic, such as (3 + 4) * 2")},
    ),
    offered(
        "send_email",
        "Send an email.",
        {"to": text("Address of the recipient", format="email"), "subject": text("Subject line"), "body": text("Text")},
    ),
    offered(
        "search_web",
        "Search the web and return result snippets.",
        {"query": text("What to look for"), "limit": whole("How many results", default=5, minimum=1, maximum=20)},
        required=["query"],
    ),
    offered(
        "book_table",
        "Reserve a table in a restaurant.",
        {
            "restaurant": text("Name of the restaurant"),
            "people": whole("Number of guests", minimum=1, maximum=12),
            "date": text("Day", format="date"),
            "time": text("When", format="time"),
        },
    ),
    offered(
        "convert_currency",
        "Convert an amount of money from one currency to another.",
        {"amount": number("Amount"), "from_currency": text(CURRENCY), "to_currency": text(CURRENCY)},
    ),
    offered(
        "translate",
        "Translate text into another language.",
        {"text": text("Text to translate"), "target_language": text("Language to translate into")},
    ),
    offered("get_stock_price", "Latest price of a stock.", {"symbol": text("Ticker symbol")}),
    offered("set_light", "Turn a light on or off.", {"room": text("Which room"), "on": {"type": "boolean"}}),
    offered(
        "roll_dice",
        "Roll dice.",
        {"count": whole("How many dice", default=1), "sides": whole("Sides of each die", default=6)},
        required=[],
    ),
    offered("get_user", "Look up a user by id.", {"user_id": whole("Id of the user")}),
    offered(
        "list_orders",
        "List orders of a customer.",
        {"customer": text("Customer name"), "status": text(enum=["open", "shipped", "cancelled"])},
        required=["customer"],
    ),
    offered("average", "Mean of numbers.", {"numbers": several(number())}),
    offered("sort_words", "Sort words alphabetically.", {"words": several(text())}),
    offered(
        "create_task",
        "Create a task in the to-do list.",
        {
            "title": text("What is to be done"),
            "priority": text(enum=["low", "medium", "high"], default="medium"),
            "tags": several(text()),
            "due": {"anyOf": [text(format="date"), {"type": "null"}], "default": None},
        },
        required=["title"],
    ),
    offered("ping", "Check that the service is alive."),
    offered("fetch_page", "Download a web page.", {"url": text(format="uri")}),
    offered("echo", "Repeat a text.", {"text": text()}),
    offered(
        "remind_me",
        "Set a reminder.",
        {"text": text("What to be reminded of"), "at": text("When", format="date-time")},
        required=["text"],
    ),
    offered(
        "distance",
        "Distance between two cities.",
        {
            "origin": text("City to start from"),
            "destination": text("City to go to"),
            "unit": text(enum=["km", "miles"], default="km"),
        },
        required=["origin", "destination"],
    ),
)


async def calls_for(message: str) -> Asked:
    return asked(await DemoModel().call(Prompt.of(message, tools=TOOLS)))


def weather(*cities: str, **more: Any) -> Asked:
    return [("get_weather", {"city": city, **more}) for city in cities]


def times(*zones: str) -> Asked:
    return [("current_time", {"zone": zone}) for zone in zones]


def sums(*expressions: str) -> Asked:
    return [("calculate", {"expression": expression}) for expression in expressions]


def one(name: str, **arguments: Any) -> Asked:
    return [(name, arguments)]


MARCH = {"start": "2024-03-01", "end": "2024-04-15"}


@pytest.mark.parametrize(
    ("message", "calls"),
    [
        ("What is the weather in Paris?", weather("Paris")),
        ("what's the weather like in new york?", weather("new york")),
        ("weather paris", weather("paris")),
        ("weather paris today", weather("paris")),
        ("weather in Rio de", weather("Rio")),
        ("weather in St. Petersburg or Rio de Janeiro", weather("St. Petersburg", "Rio de Janeiro")),
        ("Oslo weather", weather("Oslo")),
        ("Tokyo's weather please", weather("Tokyo")),
        ("WHAT IS THE WEATHER IN PARIS", weather("PARIS")),
        ("How hot is it in Cairo?", weather("Cairo")),
        ("Will it rain in London tomorrow?", weather("London")),
        ("I'm in Berlin. What's the weather?", weather("Berlin")),
        ("can you tell me what the weather is in Rio de Janeiro today?", weather("Rio de Janeiro")),
        ("What's the temperature in Berlin in fahrenheit?", weather("Berlin", units="fahrenheit")),
        ("What is the weather in Paris, Texas?", weather("Paris")),
        ("What is the weather in Paris and Oslo?", weather("Paris", "Oslo")),
        ("Is it warmer in Paris or in Oslo?", weather("Paris", "Oslo")),
        ("weather in paris, oslo and new york", weather("paris", "oslo", "new york")),
        ("Weather in Paris and Paris", weather("Paris")),
        (
            "Weather in Paris, Oslo and New York in fahrenheit please",
            weather("Paris", "Oslo", "New York", units="fahrenheit"),
        ),
        ("What's the weather in Paris and the weather in Rome", weather("Paris", "Rome")),
        ('call get_weather with {"city": "Rome", "units": "fahrenheit"}', weather("Rome", units="fahrenheit")),
        ('get_weather(city="San Francisco")', weather("San Francisco")),
        ("What time is it in Tokyo?", times("Asia/Tokyo")),
        ("What's the time in New York and London?", times("America/New_York", "Europe/London")),
        ("what time is it in san francisco", times("America/Los_Angeles")),
        ("time in Asia/Kolkata", times("Asia/Kolkata")),
        ("what time is it", one("current_time")),
        ("What's the time in Atlantis?", times("Atlantis")),
        ("2+2", sums("2+2")),
        ("What is (3+4)*2?", sums("(3+4)*2")),
        ("what is 12.5% of 80", sums("12.5 / 100 * 80")),
        ("What is 15 times 7?", sums("15 * 7")),
        ("calculate sqrt(16) + 2^3", sums("sqrt(16) + 2 ** 3")),
        ("add 2 and 3 + 4", sums("2 + 3")),
        ("what is 5 squared", sums("5 ** 2")),
        ("2 to the power of 8", sums("2 ** 8")),
        ("calculate 2 * pi", sums("2 * pi")),
        ("calculate -(2 + 3) \N{MULTIPLICATION SIGN} 4", sums("-(2 + 3) * 4")),
        ("calculate 3 x 4", sums("3 * 4")),
        ("calculate max(1, 2) - 1,000", sums("max(1, 2) - 1000")),
        ("What is 5 - 3 and 10 / 4?", sums("5 - 3", "10 / 4")),
        ("what is 2+2 and what time is it in Tokyo", [*sums("2+2"), *times("Asia/Tokyo")]),
        ("What's the weather in Paris and what's the time there?", [*weather("Paris"), *times("Europe/Paris")]),
        (
            "Tell me the time in Sydney, the weather in Rome and 3*7",
            [*times("Australia/Sydney"), *weather("Rome"), *sums("3*7")],
        ),
        (
            "How many days between 2024-01-01 and 2024-03-01?",
            one("days_between", start="2024-01-01", end="2024-03-01"),
        ),
        ("How many days are there from March 1, 2024 to April 15, 2024?", one("days_between", **MARCH)),
        ("What date is 90 days after 2024-01-01?", one("add_to_date", date="2024-01-01", days=90)),
        ("Add 3 weeks to 2024-05-01", one("add_to_date", date="2024-05-01", weeks=3)),
        (
            "Send an email to bob@example.com with subject 'Hi' and body 'Lunch at noon?'",
            one("send_email", to="bob@example.com", subject="Hi", body="Lunch at noon?"),
        ),
        ("Search the web for python tutorials", one("search_web", query="python tutorials")),
        ("search for the best pizza in Rome", one("search_web", query="the best pizza in Rome")),
        (
            "Book a table for 4 at Mario's on 2024-05-01 at 19:30",
            one("book_table", restaurant="Mario", people=4, date="2024-05-01", time="19:30:00"),
        ),
        (
            "Convert 100 USD to EUR",
            one("convert_currency", amount=100, from_currency="USD", to_currency="EUR"),
        ),
        ("convert 99.5 usd to eur", one("convert_currency", amount=99.5, from_currency="usd", to_currency="eur")),
        ('Translate "good morning" to French', one("translate", text="good morning", target_language="French")),
        ("Translate hello into Spanish", one("translate", text="hello", target_language="Spanish")),
        ("price of AAPL and MSFT", [("get_stock_price", {"symbol": each}) for each in ("AAPL", "MSFT")]),
        ("turn on the kitchen light", one("set_light", room="kitchen", on=True)),
        ("turn the kitchen light off", one("set_light", room="kitchen", on=False)),
        ("roll two dice", one("roll_dice", count=2)),
        ("roll 3 dice with 20 sides", one("roll_dice", count=3, sides=20)),
        ("roll a dice", one("roll_dice")),
        ("get user 42", one("get_user", user_id=42)),
        ("list open orders of Ann Smith", one("list_orders", customer="Ann Smith", status="open")),
        ("average of 3, 5 and 8", one("average", numbers=[3, 5, 8])),
        ("Sort the words pear, apple and fig", one("sort_words", words=["pear", "apple", "fig"])),
        ('Create a task "Buy milk" with high priority', one("create_task", title="Buy milk", priority="high")),
        ("create task: title=Buy milk, priority=high", one("create_task", title="Buy milk", priority="high")),
        ("Create a task to call mom", one("create_task", title="call mom")),
        ("ping", one("ping")),
        ("Fetch https://example.com/a?b=c", one("fetch_page", url="https://example.com/a?b=c")),
        ("Summarise https://example.com.", one("fetch_page", url="https://example.com")),
        ("echo hello world", one("echo", text="hello world")),
        ("Echo: to be or not", one("echo", text="to be or not")),
        ("Remind me to buy milk", one("remind_me", text="buy milk")),
        (
            "Remind me on 2024-05-01 at 9:30 to buy milk",
            one("remind_me", text="buy milk", at="2024-05-01T09:30:00"),
        ),
        (
            "How far is it from Paris to Berlin in miles?",
            one("distance", origin="Paris", destination="Berlin", unit="miles"),
        ),
        ("distance between Paris and Berlin", one("distance", origin="Paris", destination="Berlin")),
    ],
)
async def test_a_sentence_becomes_the_calls_that_a_reader_expects(message: str, calls: Asked) -> None:
    assert await calls_for(message) == calls


@pytest.mark.parametrize(
    ("message", "calls"),
    [
        ("calculate (", []),
        ("calculate (1, 2)", sums("1", "2")),
        ("calculate pow() + 1", sums("1")),
        ("calculate " + "1 " * 70 + "2+2", sums("1")),
    ],
)
async def test_what_is_no_arithmetic_is_not_sent_as_such(message: str, calls: Asked) -> None:
    assert await calls_for(message) == calls


@pytest.mark.parametrize(
    "message",
    [
        "hello",
        "Hi there!",
        "thanks!",
        "Good morning",
        "Tell me a joke",
        "What can you do?",
        "Who was Albert Einstein?",
        "What is the capital of France?",
        "I like working with people",
        "ok",
        "...",
        "",
    ],
)
async def test_talk_calls_nothing(message: str) -> None:
    assert await calls_for(message) == []


async def test_a_follow_up_asks_the_tool_of_the_question_before() -> None:
    history = [UserMessage("What is the weather in Paris in fahrenheit?"), UserMessage("And in Oslo?")]

    response = await DemoModel().call(talk(*history, tools=TOOLS))

    assert asked(response) == weather("Oslo")


@pytest.mark.parametrize("answer", ["Paris", "in Paris", "Paris please"])
async def test_what_was_missing_can_be_said_in_the_next_message(answer: str) -> None:
    response = await DemoModel().call(talk(UserMessage("What's the weather?"), UserMessage(answer), tools=TOOLS))

    assert asked(response) == weather("Paris")


async def test_what_was_said_before_the_missing_part_is_kept() -> None:
    history = [UserMessage("Convert 5 to EUR"), UserMessage("from USD")]

    response = await DemoModel().call(talk(*history, tools=TOOLS))

    assert asked(response) == one("convert_currency", amount=5, from_currency="USD", to_currency="EUR")


async def test_there_is_the_place_of_an_earlier_message() -> None:
    history = [
        UserMessage("What is the weather in Paris?"),
        UserMessage("thanks"),
        UserMessage("And what time is it there?"),
    ]

    response = await DemoModel().call(talk(*history, tools=TOOLS))

    assert asked(response) == times("Europe/Paris")


@pytest.mark.parametrize("answer", ["thanks", "what about tomorrow?", "never mind, it is not that important to me"])
async def test_talk_after_a_question_is_no_follow_up(answer: str) -> None:
    for question in ("What's the weather?", "What's the weather in Paris?"):
        response = await DemoModel().call(talk(UserMessage(question), UserMessage(answer), tools=TOOLS))
        assert asked(response) == []

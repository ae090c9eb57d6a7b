"""How the demo model reads schemas: every shape of parameter that people write."""

from __future__ import annotations

from typing import Any

import pytest

from app.chat import Prompt, Tool
from app.providers.embedded import DemoModel
from tests.support.offering import Asked, asked, number, offered, several, text, whole

NODE = {
    "type": "object",
    "properties": {"name": text(), "kids": several({"$ref": "#/$defs/Node"})},
    "required": ["name"],
}
ENDLESS = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "required": ["next"]}
CIRCLE = {"type": "object", "properties": {"kind": {"const": "circle"}, "radius": number()}}
RECTANGLE = {"type": "object", "properties": {"kind": {"const": "rectangle"}, "width": number(), "height": number()}}
SHAPE = {
    "oneOf": [
        {**CIRCLE, "required": ["kind", "radius"]},
        {**RECTANGLE, "required": ["kind", "width", "height"]},
    ]
}
ORDER = {
    "Customer": {"type": "object", "properties": {"name": text(), "email": text(format="email")}, "required": ["name"]},
    "Item": {
        "type": "object",
        "properties": {"product": text("Product name"), "quantity": whole("How many", minimum=1)},
        "required": ["product", "quantity"],
    },
}
UNITS = text(enum=["celsius", "fahrenheit"])

add = offered("add", "Add two numbers.", {"a": whole(), "b": whole()})
multiply = offered("multiply", "Multiply two numbers.", {"x": number(), "y": number()})
create_order = offered(
    "create_order",
    "Place an order for products.",
    {"customer": {"$ref": "#/$defs/Customer"}, "items": several({"$ref": "#/$defs/Item"})},
    definitions=ORDER,
)
walk = offered("walk", "Walk a tree.", {"root": {"$ref": "#/$defs/Node"}}, definitions={"Node": NODE})
area = offered("area", "Area of a shape.", {"shape": SHAPE})
get_item = offered("get_item", "Get an item.", {"id": {"anyOf": [whole(), text()]}})
set_volume = offered("set_volume", "Set the volume.", {"level": whole("Volume level", minimum=0, maximum=10)})
set_logging = offered("set_logging", "Switch debug logging.", {"enabled": {"type": "boolean"}})
list_files = offered(
    "list_files",
    "List files in a directory.",
    {"path": text(), "hidden": {"type": "boolean", "default": False}},
    required=["path"],
)
convert_temperature = offered(
    "convert_temperature",
    "Convert a temperature between units.",
    {"value": number(), "from_unit": UNITS, "to_unit": UNITS},
)
search_flights = offered(
    "search_flights",
    "Search for flights.",
    {
        "from": text("Departure city"),
        "to": text("Arrival city"),
        "date": text(format="date"),
        "passengers": whole(default=1),
    },
    required=["from", "to", "date"],
)
store = offered("store", "Store pairs.", {"pairs": {"type": "object", "additionalProperties": text()}})
tag = offered("tag", "Tag something.", {"tags": several(text(enum=["red", "green", "blue"]))})
move = offered(
    "move", "Move to a point.", {"point": {"type": "array", "prefixItems": [whole(), whole()], "minItems": 2}}
)
schedule = offered("schedule", "Schedule a run.", {"start": text(format="date-time"), "every": text(format="duration")})
when = offered("open_shop", "Open the shop.", {"day": text("Which day"), "hour": text("At what time")})
find_device = offered("find_device", "Find a device.", {"device": text(format="uuid")})
pay = offered("pay", "Pay money.", {"amount": number(multipleOf=0.5)})
code = offered("check_code", "Check a code.", {"code": text(pattern="^[A-Z]{2}-[0-9]+$")})
nullable = offered("note_down", "Note something down.", {"note": text(), "author": {"type": ["string", "null"]}})
level = offered("set_level", "Set a level.", {"level": {"enum": [1, 2, 3]}})
book_trip = offered(
    "book_trip",
    "Book a trip.",
    {
        "city": text(),
        "contact": {"type": "object", "properties": {"name": text(), "phone": text()}, "required": ["name", "phone"]},
    },
    required=["city"],
)
labelled = offered(
    "make_label",
    "Make a label.",
    {"title": text(), "colour": text(), "size": whole(default=3)},
    required=["title", "colour"],
)


@pytest.mark.parametrize(
    ("message", "tool", "calls"),
    [
        ("add 2 and 3", add, [{"a": 2, "b": 3}]),
        ("What is 2+3?", add, [{"a": 2, "b": 3}]),
        ("2 plus 3", add, [{"a": 2, "b": 3}]),
        ("7 minus 5", offered("subtract", "", {"a": whole(), "b": whole()}), [{"a": 7, "b": 5}]),
        ("sum of -2 and minus 3", add, [{"a": -2, "b": -3}]),
        ("add a=5 b=7", add, [{"a": 5, "b": 7}]),
        ("add(b=1, a=2)", add, [{"a": 2, "b": 1}]),
        ("add 1,000 and 2", add, [{"a": 1000, "b": 2}]),
        ("add 3, 4 and 5", add, [{"a": 3, "b": 4}]),
        ("multiply 4 by 2.5", multiply, [{"x": 4, "y": 2.5}]),
        ("square 3 and 4", offered("square", "", {"x": number()}), [{"x": 3}, {"x": 4}]),
        (
            "Order 3 pizzas for Ann",
            create_order,
            [{"customer": {"name": "Ann"}, "items": [{"product": "pizzas", "quantity": 3}]}],
        ),
        (
            "Place an order of 2 lamps for Bob Miller, bob@example.com",
            create_order,
            [
                {
                    "customer": {"name": "Bob Miller", "email": "bob@example.com"},
                    "items": [{"product": "lamps", "quantity": 2}],
                }
            ],
        ),
        ("walk the tree of Ann", walk, [{"root": {"name": "Ann"}}]),
        (
            'walk {"root": {"name": "x", "kids": [{"name": "y"}]}}',
            walk,
            [{"root": {"name": "x", "kids": [{"name": "y"}]}}],
        ),
        ("area of a circle with radius 5", area, [{"shape": {"kind": "circle", "radius": 5}}]),
        ("area of a rectangle 3 by 4", area, [{"shape": {"kind": "rectangle", "width": 3, "height": 4}}]),
        ("get item 5", get_item, [{"id": 5}]),
        ("get item A-5", get_item, [{"id": "A-5"}]),
        ("set volume to 7", set_volume, [{"level": 7}]),
        ("turn debug logging off", set_logging, [{"enabled": False}]),
        ("debug logging: enabled", set_logging, [{"enabled": True}]),
        ("switch debug logging to not enabled", set_logging, [{"enabled": False}]),
        ("List files in /srv/data including hidden ones", list_files, [{"path": "/srv/data", "hidden": True}]),
        ("List files in /srv/data", list_files, [{"path": "/srv/data"}]),
        ("read report.pdf", offered("read_file", "Read a file.", {"path": text()}), [{"path": "report.pdf"}]),
        (
            "What's 20\N{DEGREE SIGN}C in Fahrenheit?",
            convert_temperature,
            [{"value": 20, "from_unit": "celsius", "to_unit": "fahrenheit"}],
        ),
        (
            "convert 20 fahrenheit to celsius",
            convert_temperature,
            [{"value": 20, "from_unit": "fahrenheit", "to_unit": "celsius"}],
        ),
        (
            "Find flights to New York from London on 2024-05-01 for 2 passengers",
            search_flights,
            [{"from": "London", "to": "New York", "date": "2024-05-01", "passengers": 2}],
        ),
        (
            "random number between 1 and 10",
            offered("random_number", "A random number.", {"minimum": whole(), "maximum": whole()}),
            [{"minimum": 1, "maximum": 10}],
        ),
        ("store colour=red size=4", store, [{"pairs": {"colour": "red", "size": "4"}}]),
        (
            "count it with a=1 b=2",
            offered("count_it", "", {"of": {"additionalProperties": whole(), "type": "object"}}),
            [{"of": {"a": 1, "b": 2}}],
        ),
        ('store {"a": "b"}', store, [{"pairs": {"a": "b"}}]),
        ("tag it with red, green and blue", tag, [{"tags": ["red", "green", "blue"]}]),
        ('tag it with ["blue"]', tag, [{"tags": ["blue"]}]),
        ("move to 3, 4", move, [{"point": [3, 4]}]),
        (
            "schedule it for 2024-05-01T08:00:00Z every 2 hours",
            schedule,
            [{"start": "2024-05-01T08:00:00Z", "every": "PT2H"}],
        ),
        ("schedule it for 2024-05-01 every 3 days", schedule, [{"start": "2024-05-01T00:00:00", "every": "P3D"}]),
        ("open the shop on Monday at 8 am", when, [{"day": "Monday", "hour": "08:00"}]),
        ("open the shop on 2024-05-01 at 8:15", when, [{"day": "2024-05-01", "hour": "08:15"}]),
        (
            "wake me at 2024-05-01 9:30",
            offered("wake_me", "", {"at": text("When")}),
            [{"at": "2024-05-01T09:30:00"}],
        ),
        ("open the shop tomorrow at noon", when, [{"day": "tomorrow", "hour": "12:00"}]),
        (
            "find device 123e4567-e89b-42d3-a456-426614174000",
            find_device,
            [{"device": "123e4567-e89b-42d3-a456-426614174000"}],
        ),
        ("pay $12.50", pay, [{"amount": 12.5}]),
        ("check the code AB-12", code, [{"code": "AB-12"}]),
        ("note down that I like tea", nullable, [{"note": "I like tea", "author": None}]),
        ("set the level to 2", level, [{"level": 2}]),
        (
            "make a label with title 'Red wine' and colour dark blue",
            labelled,
            [{"title": "Red wine", "colour": "dark blue"}],
        ),
        (
            "make a label: title: Tea, colour: green, size: 5",
            labelled,
            [{"title": "Tea", "colour": "green", "size": 5}],
        ),
        ("sleep for 2 seconds", offered("sleep", "", {"seconds": number()}), [{"seconds": 2}]),
        ("Wait 0.5s", offered("slow", "Wait a while.", {"seconds": number()}), [{"seconds": 0.5}]),
        ("fail with 'boom'", offered("fail", "Always fails.", {"message": text()}), [{"message": "boom"}]),
        (
            "Deploy version v1.2.3 to production",
            offered("deploy", "Deploy.", {"version": text(), "environment": text(enum=["staging", "production"])}),
            [{"version": "v1.2.3", "environment": "production"}],
        ),
        ("any thing 5", offered("any_thing", "", {"x": {}}), [{"x": 5}]),
        ("any thing 'five'", offered("any_thing", "", {"x": True}), [{"x": "five"}]),
        ("lookup apple", offered("lookup", "Look up a word.", {"word": text()}), [{"word": "apple"}]),
        ("Say hello to Bob", offered("hello", "Say hello.", {"name": text()}), [{"name": "Bob"}]),
        ("Wetter in Berlin", offered("wetter", "Das Wetter.", {"stadt": text()}), [{"stadt": "Berlin"}]),
        (
            "\N{CJK UNIFIED IDEOGRAPH-5929} \N{CJK UNIFIED IDEOGRAPH-6771}",
            offered("\N{CJK UNIFIED IDEOGRAPH-5929}", "", {"city": text()}),
            [{"city": "\N{CJK UNIFIED IDEOGRAPH-6771}"}],
        ),
        (
            "Add milk and eggs to my shopping list. Thanks, bye",
            offered("add_to_shopping_list", "", {"items": several(text())}),
            [{"items": ["milk", "eggs"]}],
        ),
        (
            "Play Bohemian Rhapsody by Queen",
            offered("play_song", "Play a song.", {"title": text(), "artist": text()}),
            [{"title": "Bohemian Rhapsody", "artist": "Queen"}],
        ),
        (
            "What's the weather in San Francisco, CA?",
            offered("get_weather", "", {"location": text("City and state, e.g. San Francisco, CA")}),
            [{"location": "San Francisco"}],
        ),
        (
            "Say 'hi' three times",
            offered("say", "", {"text": text(), "times": whole(default=1)}, required=["text"]),
            [{"text": "hi", "times": 3}],
        ),
        ("Use the tool echo with text hello there", offered("echo", "", {"text": text()}), [{"text": "hello there"}]),
        (
            "Schedule a meeting with Bob tomorrow at 3pm",
            offered("schedule_meeting", "", {"attendee": text(), "day": text(), "time": text()}),
            [{"attendee": "Bob", "day": "tomorrow", "time": "15:00"}],
        ),
        ("Tell me about order 12345", offered("get_order", "", {"order_id": text()}), [{"order_id": "12345"}]),
        ("greet the world", offered("greet", "", {"name": text()}), [{"name": "world"}]),
        ("Turn it on", offered("switch", "Turn it on or off.", {"state": text(enum=["on", "off"])}), [{"state": "on"}]),
        ("open the door", offered("open_door", "", {"which": text(enum=["front"])}), [{"which": "front"}]),
        ("book a trip to Rome, name: Ann", book_trip, [{"city": "Rome"}]),
        (
            "book a trip to Rome, name: Ann, phone: 555",
            book_trip,
            [{"city": "Rome", "contact": {"name": "Ann", "phone": "555"}}],
        ),
        ("get, from all of them, the item 5", get_item, [{"id": 5}]),
        (
            "turn on the light kitchen",
            offered("turn_light", "", {"room": text(), "on": {"type": "boolean"}}),
            [{"room": "kitchen", "on": True}],
        ),
        ("echo [1, 2]", offered("echo", "", {"text": text()}), [{"text": "[1, 2]"}]),
        ("count each box: 3", offered("count_boxes", "", {"n": whole()}), [{"n": 3}]),
        ("whoami", offered("whoami", "Who is the caller."), [{}]),
        ("call `do-it`", offered("do-it"), [{}]),
    ],
)
async def test_arguments_are_read_by_the_schema(message: str, tool: Tool, calls: list[dict[str, Any]]) -> None:
    response = await DemoModel().call(Prompt.of(message, tools=(tool,)))

    assert asked(response) == [(tool.definition.name, each) for each in calls]


@pytest.mark.parametrize(
    ("message", "tool", "lacking"),
    [
        (
            "set volume to 11",
            set_volume,
            "I would call `set_volume`, but the message does not say `level` (from 0 to 10).",
        ),
        ("add 2.5 and 3", add, "I would call `add`, but the message does not say `b` (a whole number)."),
        (
            "convert the temperature 20",
            convert_temperature,
            "`from_unit` (one of celsius or fahrenheit) or `to_unit` (one of celsius or fahrenheit).",
        ),
        (
            "order",
            create_order,
            "does not say `customer.name`, `items.product` or `items.quantity` (a whole number).",
        ),
        ("walk", walk, "I would call `walk`, but the message does not say `root.name`."),
        ("check the code 12", code, "I would call `check_code`, but the message does not say `code`."),
        ("pay $12.40", pay, "I would call `pay`, but the message does not say `amount`."),
        ("schedule it for 2024-02-30 every 2 tables", schedule, "`start` or `every`."),
        (
            "tag it with red",
            offered("tag", "", {"tags": several(text(enum=["red", "blue"]), minItems=2)}),
            "does not say `tags`.",
        ),
        ("greet 'Annabel'", offered("greet", "", {"name": text(maxLength=3)}), "does not say `name`."),
        ('store {"a": NaN}', store, "`pairs`."),
        ('store {"a": 1e999}', store, "`pairs`."),
        ("store " + "{[" * 20 + '{"a": "b"}', store, "`pairs`."),
        (
            "do it",
            offered("do_it", "Do it.", {"a": {}}, required=["b"]),
            "I would call `do_it`, but the message does not say `b`.",
        ),
        (
            "close it",
            offered("close", "Close it.", {"a": {"const": 1, "type": "string"}}),
            "I would call `close`, but what the message says does not fit its parameters.",
        ),
    ],
)
async def test_what_the_message_does_not_say_is_named(message: str, tool: Tool, lacking: str) -> None:
    response = await DemoModel().call(Prompt.of(message, tools=(tool,)))

    assert asked(response) == []
    assert response.content.endswith(lacking)


async def forced(tool: Tool, message: str = "hello") -> Asked:
    return asked(await DemoModel().call(Prompt.of(message, tools=(tool,), tool_choice=tool.definition.name)))


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (text(), "hello"),
        (text(minLength=8), "helloxxx"),
        (text(maxLength=2), "he"),
        (text(format="date"), "2000-01-01"),
        (text(format="uuid"), "00000000-0000-4000-8000-000000000000"),
        (text(examples=["one", "two"]), "one"),
        (text(enum=["low", "high"]), "low"),
        (text(pattern="(", minLength=1), "hello"),
        (whole(), 1),
        (whole(minimum=3), 3),
        (whole(maximum=-3), -3),
        (whole(exclusiveMinimum=3), 4),
        (whole(exclusiveMaximum=1), 0),
        (number(exclusiveMaximum=0.5), -0.5),
        (number(minimum=2, multipleOf=1.5), 3.0),
        ({"type": "boolean"}, False),
        ({"type": "null"}, None),
        ({"type": ["null", "integer"]}, None),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, None),
        ({"allOf": [{"type": "integer"}, {"minimum": 4}]}, 4),
        ({"allOf": [{"properties": {"a": whole()}}, {"properties": {"b": whole()}, "required": ["b"]}]}, {"b": 1}),
        (several(whole()), []),
        (several(whole(), minItems=2), [1, 1]),
        (several(walk.definition.input_schema["properties"]["root"], minItems=1), [{"name": "hello"}]),
        ({"type": "array", "prefixItems": [whole(), text()]}, [1, "hello"]),
        ({"type": "object", "additionalProperties": whole()}, {}),
        ({"properties": {"a": whole()}, "required": ["a"]}, {"a": 1}),
        ({"$ref": "#/$defs/Node"}, {"name": "hello"}),
        ({"anyOf": [{"properties": {"a": whole()}, "required": ["a"]}, {"type": "integer"}]}, {"a": 1}),
        ({"default": 5, "type": "integer"}, 5),
        ({"default": "five", "type": "integer"}, 1),
        ({}, "hello"),
    ],
)
async def test_a_forced_call_takes_the_first_value_that_a_schema_allows(schema: dict[str, Any], value: object) -> None:
    tool = offered("f", "", {"x": schema}, definitions={"Node": NODE})

    assert await forced(tool) == [("f", {"x": value})]


@pytest.mark.parametrize(
    "schema",
    [
        False,
        {"enum": []},
        {"$ref": "#/$defs/Loop"},
        {"$ref": "#/$defs/Node"},
        {"allOf": [False]},
        text(pattern="^never$"),
        several(text(), minItems=2, uniqueItems=True),
        whole(minimum=3, maximum=2),
        {"type": "unheard-of", "const": {1}},
    ],
)
async def test_a_value_that_cannot_be_made_is_not_sent(schema: Any) -> None:
    tool = offered("f", "", {"x": schema}, definitions={"Node": ENDLESS, "Loop": {"$ref": "#/$defs/Loop"}})

    assert await forced(tool) == []


@pytest.mark.fault("T04")
@pytest.mark.parametrize("node", ["wide", "wide and required", "forked"])
async def test_types_that_contain_themselves_many_times_are_bounded_work(node: str) -> None:
    wide = {"type": "object", "properties": {f"p{each}": {"$ref": "#/$defs/Node"} for each in range(12)}}
    nodes = {
        "wide": wide,
        "wide and required": {**wide, "required": ["p1", "p2", "p3"]},
        "forked": {"anyOf": [{"$ref": "#/$defs/Node"}] * 3 + [several({"$ref": "#/$defs/Node"})]},
    }
    tool = offered("walk", "Walk a tree.", {"root": {"$ref": "#/$defs/Node"}}, definitions={"Node": nodes[node]})

    response = await DemoModel().call(Prompt.of("walk the tree of Ann and 3 or 4", tools=(tool,)))

    assert asked(response) == {"wide": [("walk", {"root": {}})]}.get(node, [])
    assert await forced(tool) == {
        "wide": [("walk", {"root": {}})],
        "forked": [("walk", {"root": []})],
    }.get(node, [])

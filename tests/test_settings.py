"""Settings: where they come from, which is stronger, and what is said when one is wrong."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from app.chat import ConfigurationError
from app.settings import MemorySettings, ModelServerSettings, Settings, TargetSettings
from app.settings_sources import TomlFile, config_dir, fields, variable_name

REPOSITORY = Path(__file__).parents[1]
KEY = "sk-test-never-shown"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder without any settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GATEWAY_CONFIG_DIR", raising=False)
    monkeypatch.delenv("GATEWAY_ENV_FILE", raising=False)
    monkeypatch.delenv("GATEWAY_MEMORY__URL")
    return tmp_path


def write_toml(folder: Path, text: str) -> None:
    (folder / "config").mkdir(exist_ok=True)
    (folder / "config" / "gateway.toml").write_text(text, encoding="utf-8")


def refusal(**arguments: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        Settings(**arguments)
    return str(caught.value)


def values_in(table: dict[str, Any]) -> Iterator[object]:
    for value in table.values():
        if isinstance(value, dict):
            yield from values_in(value)
        else:
            yield value


def test_the_gateway_starts_without_any_setting() -> None:
    settings = Settings()

    assert (settings.server.host, settings.server.port) == ("127.0.0.1", 8000)
    assert settings.tools.packages == ("tools",)
    assert not settings.model.configured


def test_the_limits_of_a_turn_have_defaults() -> None:
    limits = Settings().tool_calling

    assert (limits.max_calls_per_tool, limits.max_total_calls) == (40, 150)
    assert (limits.max_rounds, limits.max_identical_calls, limits.on_limit) == (25, 3, "raise")


def test_the_shipped_file_shows_every_setting_with_its_default() -> None:
    shown = (REPOSITORY / "config" / "gateway.toml").read_text(encoding="utf-8")
    keys = {key[-1] for key, _ in fields(Settings)}
    taken_in = re.sub(rf"^# (?=({'|'.join(keys)}) = )", "", shown, flags=re.MULTILINE)
    values = tomllib.loads(taken_in)

    for key, _ in fields(Settings):
        section = values
        for part in key:
            assert part in section, f"config/gateway.toml does not show {'.'.join(key)}"
            section = section[part]
    assert Settings(**values) == Settings()
    assert list(values_in(tomllib.loads(shown))) == []


def test_the_page_on_configuration_names_every_setting() -> None:
    page = (REPOSITORY / "docs" / "configuration.md").read_text(encoding="utf-8")
    names = {variable_name(key, Settings) for key, _ in fields(Settings)}

    assert set(re.findall(r"^\| `(GATEWAY_\w+)` \|", page, re.MULTILINE)) == names


def test_the_shipped_example_of_an_environment_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_ENV_FILE", str(REPOSITORY / "config" / "gateway.env.example"))

    assert Settings() == Settings(model={"base_url": ""})


# Which place is stronger


def test_arguments_beat_environment_beats_env_file_beats_toml(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_toml(folder, '[model]\nname = "toml"\n[server]\nhost = "toml"\nport = 1\n[tools]\npackages = ["toml"]\n')
    (folder / ".env").write_text(
        'GATEWAY_SERVER__HOST=file\nGATEWAY_SERVER__PORT=2\nGATEWAY_TOOLS__PACKAGES=["file"]\n'
    )
    monkeypatch.setenv("GATEWAY_SERVER__PORT", "3")
    monkeypatch.setenv("GATEWAY_TOOLS__PACKAGES", '["environment"]')

    settings = Settings(tools={"packages": ["argument"]})

    assert settings.tools.packages == ("argument",)
    assert settings.server.port == 3
    assert settings.server.host == "file"
    assert settings.model.name == "toml"


def test_a_section_passed_whole_replaces_what_the_environment_says_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_MEMORY__MAX_MESSAGES", "7")

    assert Settings(memory=MemorySettings(max_conversations=2)).memory.max_messages == 200
    assert Settings(memory={"max_conversations": 2}).memory.max_messages == 7


def test_a_source_answers_for_one_section_as_for_all(folder: Path) -> None:
    write_toml(folder, "[server]\nport = 81\n")
    source = TomlFile(Settings, config_dir() / "gateway.toml")

    assert source.get_field_value(Settings.model_fields["server"], "server") == ({"port": 81}, "server", False)


def test_variables_may_be_written_in_lower_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("gateway_model__name", "small")

    assert Settings().model.name == "small"


def test_an_empty_variable_counts_as_not_given(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_toml(folder, '[model]\nname = "kept"\nbase_url = ""\n')
    for name in ("MODEL__NAME", "MODEL__BASE_URL", "MODEL__API_KEY", "SERVER__PORT", "TOOLS__PACKAGES", "ADVISORS"):
        monkeypatch.setenv(f"GATEWAY_{name}", " ")

    settings = Settings()

    assert settings.model.name == "kept"
    assert not settings.model.configured
    assert settings.server.port == 8000


def test_an_empty_text_in_the_file_counts_as_not_given(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://fallback.example.org/v1")
    write_toml(folder, '[model]\nbase_url = ""\nname = ""\n[tools.context]\ntenant = ""\n')

    settings = Settings()

    assert settings.model.base_url == "https://fallback.example.org/v1"
    assert settings.model.name == "gpt-4o-mini"
    assert settings.tools.context == {"tenant": ""}


def test_lists_and_mappings_are_json_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_ADVISORS", '["house.rules:strict", "house.audit:make.log"]')
    monkeypatch.setenv("GATEWAY_TOOLS__CONTEXT", '{"Tenant": {"id": 4}}')
    monkeypatch.setenv("GATEWAY_SERVER__CORS_ORIGINS", '["https://app.example.org", "*"]')
    monkeypatch.setenv("GATEWAY_SERVER__FORWARDED_ALLOW_IPS", '["10.1.2.3", "10.0.0.0/8", "::1", "*"]')

    settings = Settings()

    assert settings.advisors == ("house.rules:strict", "house.audit:make.log")
    assert settings.tools.context == {"Tenant": {"id": 4}}
    assert settings.server.cors_origins == ("https://app.example.org", "*")
    assert settings.server.forwarded_allow_ips == ("10.1.2.3", "10.0.0.0/8", "::1", "*")


@pytest.mark.fault("C01")
def test_no_proxy_is_believed_unless_it_is_named() -> None:
    assert Settings().server.forwarded_allow_ips == ()


@pytest.mark.parity(80)
@pytest.mark.parametrize("word", ["0", "none", "Unlimited", " unlimited "])
@pytest.mark.parametrize("name", ["MAX_ROUNDS", "MAX_CALLS_PER_TOOL", "MAX_TOTAL_CALLS", "MAX_IDENTICAL_CALLS"])
def test_each_limit_can_be_switched_off_by_itself(monkeypatch: pytest.MonkeyPatch, name: str, word: str) -> None:
    monkeypatch.setenv(f"GATEWAY_TOOL_CALLING__{name}", word)

    limits = Settings().tool_calling.model_dump()
    defaults = Settings(tool_calling={name.lower(): 9}).tool_calling.model_dump()

    assert limits[name.lower()] is None
    assert {**limits, name.lower(): 9} == defaults


@pytest.mark.parametrize("value", ["0", "none", "unlimited"])
def test_times_can_be_switched_off_too(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("GATEWAY_TOOL_CALLING__TOOL_TIMEOUT", value)
    monkeypatch.setenv("GATEWAY_STREAM__HEARTBEAT", value)

    settings = Settings()

    assert settings.tool_calling.tool_timeout is None
    assert settings.stream.heartbeat is None


def test_a_stream_may_commit_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_STREAM__COMMIT_AFTER", "0")

    assert Settings().stream.commit_after == 0


# The model server


def test_an_address_or_a_key_configures_a_model() -> None:
    assert Settings(model={"base_url": "http://localhost:8080/v1"}).model.server_url == "http://localhost:8080/v1"
    assert Settings(model={"api_key": KEY}).model.server_url == "https://api.openai.com/v1"
    assert Settings(model={"api_key": SecretStr(f" {KEY}")}) == Settings(model={"api_key": KEY})
    assert Settings(model={"api_key": KEY}).model.configured
    assert not Settings(model={"name": "only-a-name"}).model.configured


@pytest.mark.parametrize("place", ["environment", "file"])
def test_openai_variables_are_fallbacks(folder: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    variables = {"OPENAI_BASE_URL": "https://models.example.org/v1", "OPENAI_API_KEY": KEY}
    if place == "environment":
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
    else:
        (folder / ".env").write_text("".join(f"{name}={value}\n" for name, value in variables.items()))

    model = Settings().model

    assert model.server_url == "https://models.example.org/v1"
    assert model.api_key is not None
    assert model.api_key.get_secret_value() == KEY


def test_openai_variables_are_weaker_than_any_place_of_our_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://fallback.example.org/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-fallback")
    write_toml(folder, '[model]\nbase_url = "https://own.example.org/v1"\n')

    model = Settings().model

    assert model.base_url == "https://own.example.org/v1"
    assert model.api_key is not None
    assert model.api_key.get_secret_value() == "sk-fallback"


def test_an_openai_variable_in_the_environment_beats_one_in_a_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / ".env").write_text("OPENAI_BASE_URL=https://file.example.org\n")
    monkeypatch.setenv("OPENAI_BASE_URL", "https://environment.example.org")

    assert Settings().model.base_url == "https://environment.example.org"


@pytest.mark.parametrize("fallback", [None, "sk-fallback"])
def test_the_key_can_come_from_a_file(folder: Path, monkeypatch: pytest.MonkeyPatch, fallback: str | None) -> None:
    (folder / "key").write_text(f"{KEY}\r\n")
    monkeypatch.setenv("GATEWAY_MODEL__API_KEY_FILE", str(folder / "key"))
    if fallback:
        monkeypatch.setenv("OPENAI_API_KEY", fallback)

    key = Settings().model.api_key

    assert key is not None
    assert key.get_secret_value() == KEY


def test_a_key_given_twice_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "key").write_text("sk-other")
    monkeypatch.setenv("GATEWAY_MODEL__API_KEY_FILE", "key")
    monkeypatch.setenv("GATEWAY_MODEL__API_KEY", KEY)

    assert "GATEWAY_MODEL__API_KEY (environment): is given twice" in refusal()


def test_a_key_file_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_MODEL__API_KEY_FILE", "/run/secrets/none")

    assert "GATEWAY_MODEL__API_KEY_FILE (environment): must name a file that the gateway can read" in refusal()


@pytest.mark.parametrize("fallback", [None, "sk-fallback"])
def test_an_unusable_key_in_a_file_is_not_blamed_on_the_fallback(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fallback: str | None
) -> None:
    (folder / "key").write_bytes(b"sk-\xff")
    write_toml(folder, '[model]\napi_key_file = "key"\n')
    if fallback:
        monkeypatch.setenv("OPENAI_API_KEY", fallback)

    assert "\n  GATEWAY_MODEL__API_KEY: holds" in refusal()


@pytest.mark.fault("X01")
@pytest.mark.parametrize("end", ["", "\r", "\r\n", " ", "\t"])
def test_white_space_around_a_key_is_dropped(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    monkeypatch.setenv("GATEWAY_MODEL__API_KEY", f"{KEY}{end}")

    key = Settings().model.api_key

    assert key is not None
    assert key.get_secret_value() == KEY


@pytest.mark.fault("X01")
@pytest.mark.parametrize("inside", ["\x01", "\r", " ", "\x7f", "\u00e9", "\u201c"])
def test_a_key_that_no_header_can_hold_is_refused_without_showing_it(
    monkeypatch: pytest.MonkeyPatch, inside: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f"sk-test{inside}-never-shown")

    message = refusal()

    assert "OPENAI_API_KEY (environment): holds white space, a control character or one outside ASCII" in message
    assert "never-shown" not in message


@pytest.mark.fault("X01")
@pytest.mark.parametrize(
    ("address", "rule"),
    [
        ("localhost:8080", "must be an http:// or https:// address"),
        ("ftp://host", "must be an http:// or https:// address"),
        ("http://", "must be an http:// or https:// address"),
        ("http://host:99999", "must be an http:// or https:// address"),
        ("http://host:0", "must be an http:// or https:// address"),
        ("http://ho st/v1", "must be an http:// or https:// address"),
        (f"http://user:{KEY}@ho st/v1", "must be an http:// or https:// address"),
    ],
)
def test_an_address_that_cannot_work_is_refused(monkeypatch: pytest.MonkeyPatch, address: str, rule: str) -> None:
    monkeypatch.setenv("GATEWAY_MODEL__BASE_URL", address)

    message = refusal()

    assert f"GATEWAY_MODEL__BASE_URL (environment): {rule}" in message
    assert KEY not in message


@pytest.mark.parametrize(
    "headers", ['{"X Team": "blue"}', '{"X-Team": "blue\\r\\nX-Other: 1"}', '{"X-Team": "\u00e9"}']
)
def test_headers_that_cannot_be_sent_are_refused(monkeypatch: pytest.MonkeyPatch, headers: str) -> None:
    monkeypatch.setenv("GATEWAY_MODEL__HEADERS", headers)

    assert "GATEWAY_MODEL__HEADERS (environment): must map header names to one line of ASCII text each" in refusal()


def test_the_dialect_of_a_server_can_be_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_MODEL__PROFILE__THINK_TAGS", "true")

    assert Settings().model.profile.model_dump(exclude_none=True) == {"think_tags": True}


# Several model servers


def test_an_alias_is_one_table_or_a_list_of_tables(folder: Path) -> None:
    write_toml(
        folder,
        """
        [[models.fast]]
        base_url = "http://one.example.org/v1"
        weight = 2
        [[models.fast]]
        base_url = "http://two.example.org/v1"
        api_key = ""
        name = ""
        [models.fast.profile]
        think_tags = true
        [models.small]
        base_url = "http://three.example.org/v1"
        """,
    )

    models = Settings().models

    assert [target.server_url[7:10] for target in (*models["fast"], *models["small"])] == ["one", "two", "thr"]
    assert [target.weight for target in models["fast"]] == [2, None]
    assert models["fast"][1].profile.flags == {"think_tags": True}
    assert models["fast"][1].api_key is None


def test_aliases_can_be_json_in_the_environment_and_are_merged_with_those_of_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_toml(folder, '[models.small]\nbase_url = "http://three.example.org/v1"\n')
    (folder / "key").write_text(f"{KEY}\n")
    monkeypatch.setenv("GATEWAY_MODELS", '{"fast": [{"api_key_file": "key", "name": "gpt-5", "max_concurrency": 4}]}')

    models = Settings().models

    assert set(models) == {"fast", "small"}
    [target] = models["fast"]
    assert (target.server_url, target.name, target.max_concurrency) == ("https://api.openai.com/v1", "gpt-5", 4)
    assert target.secrets == (KEY,)
    assert KEY not in f"{models!r}"


def test_the_openai_variables_do_not_reach_servers_behind_aliases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    [target] = Settings(models={"fast": {"base_url": "http://one.example.org/v1"}}).models["fast"]

    assert target.api_key is None


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ('{"fast": [{"base_url": "one"}]}', "fast.0.base_url: must be an http:// or https:// address"),
        ('{"fast": [{"name": "small"}]}', "fast.0: needs a base_url, or a key for OpenAI's own API"),
        ('{"fast": []}', "fast: must not be empty"),
        ('{"fast": [{"api_key": "k", "weight": 0}]}', "fast.0.weight: must be greater than 0"),
        ('{"fast": [{"api_key": "k", "wait": 1}]}', "fast.0.wait: unknown; the nearest known name is weight"),
        (
            '{"fast": [{"api_key": "k", "profile": {"think_tag": true}}]}',
            "fast.0.profile.think_tag: unknown; the nearest known name is profile.think_tags",
        ),
    ],
)
def test_what_is_wrong_with_a_server_behind_an_alias_is_named_by_its_place(
    monkeypatch: pytest.MonkeyPatch, value: str, problem: str
) -> None:
    monkeypatch.setenv("GATEWAY_MODELS", value)

    assert f"\n  GATEWAY_MODELS (environment): {problem}" in refusal()


def test_aliases_that_are_no_mapping_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_MODELS", '["fast"]')

    assert 'GATEWAY_MODELS (environment): must be a JSON object, such as {"name": "value"}' in refusal()


def test_the_page_on_configuration_names_what_only_a_server_behind_an_alias_has() -> None:
    page = (REPOSITORY / "docs" / "configuration.md").read_text(encoding="utf-8")
    own = set(TargetSettings.model_fields) - set(ModelServerSettings.model_fields)

    assert set(re.findall(r"^\| `([a-z_]+)` \|", page, re.MULTILINE)) == own


# Where the memory is


def test_conversations_are_kept_in_a_file_unless_told_otherwise() -> None:
    assert Settings().memory.address == "data/gateway.db"


@pytest.mark.parametrize(
    "address",
    ["memory://", "here.db", "sqlite:///here.db", "postgresql://u:p@h:5432/name", "postgres://u@h/name?ssl=require"],
)
@pytest.mark.parametrize("place", ["itself", "a file"])
def test_the_address_of_the_memory_is_taken_as_it_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch, address: str, place: str
) -> None:
    if place == "itself":
        monkeypatch.setenv("GATEWAY_MEMORY__URL", f" {address}\n")
    else:
        (folder / "address").write_text(f"{address}\n")
        monkeypatch.setenv("GATEWAY_MEMORY__URL_FILE", "address")

    assert Settings().memory.address == address


@pytest.mark.parametrize("word", ["0", "none", "unlimited", "0.0"])
def test_conversations_can_be_kept_for_ever(monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    monkeypatch.setenv("GATEWAY_MEMORY__KEEP_DAYS", word)

    assert Settings().memory.keep_days is None


# Secrets and immutability


@pytest.mark.fault("X03")
def test_no_form_of_the_settings_shows_a_secret() -> None:
    settings = Settings(
        model={"api_key": KEY, "headers": {"X-Auth": KEY}, "system": f"Say {KEY}", "base_url": f"http://u:{KEY}@h/"},
        tools={"context": {"token": KEY}},
        memory={"url": f"postgresql://u:{KEY}@h/name"},
        redis={"url": f"redis://:{KEY}@h"},
    )

    shown = f"{settings!r} {settings} {settings.model!r} {settings.tools!r} {settings.model.model_dump()['api_key']}"
    shown += f"{settings.memory!r} {settings.memory.model_dump()} {settings.redis!r}"

    assert KEY not in shown


def test_passwords_of_databases_are_known_in_every_form() -> None:
    settings = Settings(
        memory={"url": "postgresql://user:s%2Fcret@host/name?sslpassword=of%20the%20key&sslmode=require"},
        redis={"url": "redis://:only-mine@host:6379/0"},
    )

    assert settings.passwords == ("s%2Fcret", "s/cret", "of the key", "only-mine")
    assert Settings().passwords == ()
    assert Settings(memory={"url": "postgresql://host/name?user=u&password=p%25w"}).passwords == ("p%w",)


def test_settings_cannot_be_changed() -> None:
    settings = Settings()

    with pytest.raises(ValidationError, match="frozen"):
        settings.advisors = ()
    with pytest.raises(ValidationError, match="frozen"):
        settings.server.port = 1


# What is said when something is wrong


def test_every_wrong_value_is_named_with_its_place_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_toml(folder, '[tool_calling]\nuncounted = [""]\n[stream]\nheartbeat = "often"\n')
    (folder / ".env").write_text("GATEWAY_SERVER__PORT=99999\n")
    monkeypatch.setenv("GATEWAY_TOOL_CALLING__ON_LIMIT", "explode")
    monkeypatch.setenv("GATEWAY_TOOL_CALLING__MAX_ROUNDS", "-1")

    lines = refusal(memory={"max_messages": 0}).splitlines()

    assert lines[0] == "The settings are not usable:"
    assert sorted(lines[1:]) == [
        "  GATEWAY_SERVER__PORT (.env): must be less than or equal to 65535",
        "  GATEWAY_TOOL_CALLING__MAX_ROUNDS (environment): must be greater than or equal to 0",
        "  GATEWAY_TOOL_CALLING__ON_LIMIT (environment): must be 'raise' or 'return_error'",
        "  memory.max_messages (argument): must be greater than or equal to 1",
        "  stream.heartbeat (config/gateway.toml): must be a valid number, unable to parse string as a number",
        "  tool_calling.uncounted (config/gateway.toml): must not be empty",
    ]


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("TOOLS__PACKAGES", "tools", 'must be a JSON list, such as ["one", "two"]'),
        ("TOOLS__PACKAGES", "[" * 100_000, 'must be a JSON list, such as ["one", "two"]'),
        ("TOOLS__PACKAGES", '["my-tools"]', "must be the importable name of a package or module, such as tools"),
        ("TOOLS__CONTEXT", "[1]", 'must be a JSON object, such as {"name": "value"}'),
        ("ADVISORS", '["house.rules"]', "must have the form package.module:factory"),
        ("SERVER__CORS_ORIGINS", '["https://app.example.org/"]', 'must be "*" or scheme://host[:port] with nothing'),
        ("SERVER__FORWARDED_ALLOW_IPS", '["proxy"]', "must be an IP address, a network such as 10.0.0.0/8"),
        ("STREAM__COMMIT_AFTER", "inf", "must be a finite number"),
        (
            "MEMORY__URL",
            "mysql://u:p@h/name",
            "must be a path, sqlite:///path, postgresql://user:password@host/name or",
        ),
        ("MEMORY__URL", "memory://here", "must be a path, sqlite:///path, postgresql://user:password@host/name or"),
        ("MEMORY__URL", "postgresql://u:[p@h/name", "must be a path, sqlite:///path, postgresql://user:password@host"),
        ("MEMORY__URL", "://", "must be a path, sqlite:///path, postgresql://user:password@host/name or memory://"),
        ("MEMORY__KEEP_DAYS", "-1", "must be greater than or equal to 0"),
        ("MEMORY__KEEP_DAYS", "36501", "must be less than or equal to 36500"),
        ("LOGGING__LEVEL", "loud", "must be 'debug', 'info', 'warning', 'error' or 'critical'"),
    ],
)
def test_a_rule_says_what_is_allowed(monkeypatch: pytest.MonkeyPatch, name: str, value: str, rule: str) -> None:
    monkeypatch.setenv(f"GATEWAY_{name}", value)

    assert f"\n  GATEWAY_{name} (environment): {rule}" in refusal()


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [
        ("GATEWAY_ADVISOR", "GATEWAY_ADVISORS"),
        ("GATEWAY_SERVER__PROT", "GATEWAY_SERVER__PORT"),
        ("GATEWAY_MODLE__NAME", "GATEWAY_MODEL__NAME"),
        ("GATEWAY_API_KEY", "GATEWAY_MODEL__API_KEY"),
        ("GATEWAY_MODEL_API_KEY", "GATEWAY_MODEL__API_KEY"),
        ("GATEWAY_PORT", "GATEWAY_SERVER__PORT"),
        ("GATEWAY_MODEL", "GATEWAY_MODELS"),
        ("GATEWAY_MODEL__NAME__FIRST", "GATEWAY_MODEL__NAME"),
    ],
)
@pytest.mark.parametrize("place", ["environment", ".env"])
def test_an_unknown_variable_is_an_error_that_names_the_nearest_known_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch, place: str, wrong: str, nearest: str
) -> None:
    if place == "environment":
        monkeypatch.setenv(wrong, KEY)
    else:
        (folder / ".env").write_text(f"{wrong}={KEY}\n")

    message = refusal()

    assert f"\n  {wrong} ({place}): unknown; the nearest known name is {nearest}" in message
    assert KEY not in message


@pytest.mark.parametrize(
    ("text", "wrong", "nearest"),
    [
        ("[modle]\nname = 'x'", "modle", "model"),
        ("[model]\nnam = 'x'", "model.nam", "model.name"),
        ("[tools]\nmax_rounds = 3", "tools.max_rounds", "tool_calling.max_rounds"),
        ("advisor = []", "advisor", "advisors"),
    ],
)
def test_an_unknown_key_of_the_file_is_an_error_that_names_the_nearest_known_one(
    folder: Path, text: str, wrong: str, nearest: str
) -> None:
    write_toml(folder, text)

    assert f"\n  {wrong} (config/gateway.toml): unknown; the nearest known name is {nearest}" in refusal()


def test_an_unknown_argument_is_an_error_too() -> None:
    assert "server.prot (argument): unknown; the nearest known name is server.port" in refusal(server={"prot": 1})


def test_a_number_in_place_of_a_word_is_refused() -> None:
    assert "logging.level (argument): must be 'debug', 'info'" in refusal(logging={"level": 10})


def test_a_value_in_place_of_a_section_is_refused(folder: Path) -> None:
    write_toml(folder, 'model = "gpt-4o-mini"\n')

    assert "model (config/gateway.toml): is a section: set the keys in it" in refusal()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GATEWAY_PORT", "tcp://10.0.0.1:8000"),
        ("GATEWAY_SERVICE_HOST", "10.0.0.1"),
        ("GATEWAY_SERVICE_PORT", "8000"),
        ("GATEWAY_SERVICE_PORT_HTTP", "8000"),
        ("GATEWAY_PORT_8000_TCP", "tcp://10.0.0.1:8000"),
        ("GATEWAY_PORT_8000_TCP_ADDR", "10.0.0.1"),
        ("GATEWAY_PORT_8000_TCP_PORT", "8000"),
        ("GATEWAY_PORT_8000_TCP_PROTO", "tcp"),
        ("GATEWAY_BLUE_SERVICE_HOST", "10.0.0.1"),
        ("GATEWAY_BLUE_PORT", "udp://10.0.0.1:53"),
    ],
)
def test_variables_that_kubernetes_makes_for_a_service_are_not_ours(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)

    assert Settings().server.port == 8000


# Files


def test_an_env_file_may_have_windows_line_ends_quotes_and_foreign_variables(folder: Path) -> None:
    (folder / ".env").write_bytes(
        b'\xef\xbb\xbf# a comment\r\nexport GATEWAY_MODEL__NAME="my model"\r\n\r\nCOMPOSE_PROFILES=x\r\nMARK\r\n'
        b"GATEWAY_MODEL__API_KEY='sk-${HOME}-$1'  # kept as it is\r\nGATEWAY_SERVER__PORT=81 # a port\r\n"
    )

    settings = Settings()

    assert settings.model.name == "my model"
    assert settings.server.port == 81
    assert settings.model.api_key is not None
    assert settings.model.api_key.get_secret_value() == "sk-${HOME}-$1"


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        (".env", b"GOOD=1\nGATEWAY_MODEL__NAME='open\n", ".env has lines that are not NAME=value: 2"),
        (".env", b"NAME=\xff\n", ".env cannot be read as UTF-8 text: UnicodeDecodeError"),
        ("config/gateway.toml", b"[server\n", "config/gateway.toml is not valid TOML: "),
        ("config/gateway.toml", b"a = '\xff'\n", "config/gateway.toml cannot be read as UTF-8 text"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(folder: Path, name: str, content: bytes, problem: str) -> None:
    (folder / "config").mkdir()
    (folder / name).write_bytes(content)

    assert refusal().startswith(problem)


def test_the_places_of_both_files_can_be_set(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "etc").mkdir()
    (folder / "etc" / "gateway.toml").write_text("[server]\nport = 81\n")
    (folder / "my.env").write_text("GATEWAY_MODEL__NAME=mine\n")
    monkeypatch.setenv("GATEWAY_CONFIG_DIR", str(folder / "etc"))
    monkeypatch.setenv("GATEWAY_ENV_FILE", "my.env")

    settings = Settings()

    assert config_dir() == folder / "etc"
    assert settings.server.port == 81
    assert settings.model.name == "mine"


@pytest.mark.parametrize("name", ["GATEWAY_CONFIG_DIR", "GATEWAY_ENV_FILE"])
def test_a_place_that_does_not_exist_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, str(folder / "nowhere"))

    assert refusal().startswith(f"{name} must name a f")

"""Which dialect a model server is spoken to in."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from app.chat import ConfigurationError
from app.main import create_app
from app.providers.profiles import DEFAULT, FLAGS, PROFILES, Profile, profile_for
from app.providers.servers import SERVERS
from app.settings import ProfileSettings, Settings


@pytest.mark.parametrize(
    ("base_url", "name"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://eu.api.openai.com/v1", "openai"),
        ("https://OUR.openai.azure.com/openai/v1", "azure"),
        ("https://api.mistral.ai./v1", "mistral"),
        ("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "dashscope"),
        ("https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1", "bedrock"),
        ("http://localhost:11434/v1", "ollama"),
        ("http://ollama:11434/v1", "ollama"),
        ("http://[::1]:1234/v1", "lm-studio"),
        ("http://host.docker.internal:1234/v1", "lm-studio"),
        ("https://models.example.org:11434/v1", DEFAULT),
        ("http://localhost:8080/v1", DEFAULT),
        ("https://notapi.openai.com.example/v1", DEFAULT),
        ("https://evilapi.openai.com/v1", DEFAULT),
        ("http://localhost:99999/v1", DEFAULT),
        ("no url", DEFAULT),
    ],
)
def test_the_profile_follows_from_the_address(base_url: str, name: str) -> None:
    assert profile_for(base_url) == PROFILES[name]


def test_a_name_wins_over_the_address() -> None:
    assert profile_for("https://api.mistral.ai/v1", name="vllm") == PROFILES["vllm"]
    assert profile_for("https://api.mistral.ai/v1", name=DEFAULT) == Profile()


def test_flags_win_over_the_profile_and_those_that_say_nothing_do_not() -> None:
    flags = {"stream_usage": True, "think_tags": None, "unsent_options": ["seed"]}

    profile = profile_for("https://api.mistral.ai/v1", flags=flags)

    assert (profile.stream_usage, profile.think_tags, profile.unsent_options) == (True, False, frozenset({"seed"}))
    assert profile.call_ids == "exactly_9"


def test_flags_win_over_what_is_known_of_some_models() -> None:
    flags = {"system_role": "system", "unsent_options": ()}

    profile = profile_for("https://api.openai.com/v1", flags=flags).of_model("o3-mini")

    assert (profile.system_role, profile.unsent_options) == ("system", frozenset())
    assert not profile.parallel_tool_calls


def test_flags_of_one_server_do_not_reach_another() -> None:
    profile_for("https://api.openai.com/v1", flags={"strict_tools": True})

    assert not profile_for("https://api.openai.com/v1").strict_tools


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"name": "mistrall"}, "no profile 'mistrall'.*nearest is 'mistral'"),
        ({"name": "?"}, "no profile.*there are anthropic, azure"),
        ({"flags": {"think_tag": True}}, "no flag 'think_tag'.*nearest is 'think_tags'"),
        ({"flags": {"variants": ()}}, "no flag 'variants'"),
    ],
)
def test_what_does_not_exist_is_an_error_that_names_what_does(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        profile_for("http://localhost/v1", **arguments)


def test_a_profile_that_does_not_exist_stops_the_start() -> None:
    server = {"base_url": "http://localhost/v1", "profile": {"name": "mistrall"}}

    with pytest.raises(ConfigurationError, match="nearest is 'mistral'"):
        create_app(Settings(model=server), tools=())


@pytest.mark.parametrize(
    ("server", "model", "differs"),
    [
        ("openai", "gpt-4o-mini", False),
        ("openai", "gpt-5-chat-latest", False),
        ("openai", None, False),
        ("openai", "o3-mini", True),
        ("openai", "GPT-5.1", True),
        ("azure", "o1-our-deployment", True),
        ("deepseek", "deepseek-chat", False),
        ("deepseek", "deepseek-v4-flash", True),
        ("xai", "grok-4-fast-non-reasoning", False),
        ("xai", "grok-4-fast-reasoning", True),
        ("moonshot", "moonshot-v1-8k", False),
        ("moonshot", "kimi-k2.6", True),
    ],
)
def test_models_that_differ_from_their_servers_others_are_known_by_name(
    server: str, model: str | None, differs: bool
) -> None:
    assert (PROFILES[server].of_model(model) != PROFILES[server]) is differs


def test_every_flag_can_be_set_by_the_operator() -> None:
    assert set(FLAGS) == set(ProfileSettings.model_fields) - {"name"}


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.name)
def test_a_server_that_differs_says_where_that_is_known_from(server: Any) -> None:
    assert server.sources
    for variant in server.profile.variants:
        assert server.profile.of_model(server.model) is not None
        assert set(variant.flags) <= set(FLAGS)


def test_names_of_servers_are_unique() -> None:
    assert len(PROFILES) == len(SERVERS) + 1
    assert all(dataclasses.is_dataclass(server) for server in SERVERS)

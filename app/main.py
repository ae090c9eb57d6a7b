"""The gateway, put together: the only place where its parts are made, wired and closed."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any

from fastapi import FastAPI

from app import __version__
from app.advisors import MemoryAdvisor, ToolAdvisor, ToolCallingAdvisor, TraceAdvisor
from app.advisors.loading import load_advisors
from app.advisors.summarizer import ModelSummarizer
from app.chat import Advisor, ChatModel, ChatOptions, Tool
from app.client import ChatClient
from app.memory import ChatMemory, ConversationStore, InMemoryChatMemory, Summarize, SummarizingMemory, Window
from app.memory.address import sqlite_path
from app.memory.deferred import DeferredMemory
from app.memory.retention import forget_old
from app.providers.clock import Timeouts
from app.providers.embedded import DemoModel
from app.providers.openai import OpenAIModel
from app.providers.profiles import Profile, profile_for
from app.providers.routing import BreakerPolicy, Limits, RetryBudget, RetryPolicy, RoutedModel, Target
from app.providers.transport_http import HttpTransport
from app.runs import Fence, InMemoryRunStore, JournalLimits, Retention, RunLimits, Runs, RunStore
from app.settings import (
    MemorySettings,
    ModelServerSettings,
    RunsSettings,
    Settings,
    TargetSettings,
    ToolCallingSettings,
)
from app.startup import DEMO_NOTE, announce, warn_of_lone_memory
from app.tooling import ToolCallingManager, ToolCallLimits, ToolThreads, discover, settled_tools
from app.web import Gateway, application

IN_MEMORY = "memory://"
"""The address of a memory in this process."""


def create_app(
    settings: Settings | None = None,
    *,
    model: ChatModel | None = None,
    tools: Iterable[Any] | None = None,
    advisors: Iterable[Advisor] = (),
    tool_calling_advisor: Callable[[], ToolAdvisor] | None = None,
    memory: ChatMemory | None = None,
) -> FastAPI:
    """The gateway as an ASGI application.

    Works without arguments in an empty environment: then the built-in demo model answers.

    Args:
        settings: what the operator set; None = read from the environment and the files.
        model: answers instead of the configured one. The application closes it when it stops.
        tools: functions, tools and toolsets instead of those found in the configured packages.
        advisors: habits around the model, beside the configured ones.
        tool_calling_advisor: makes the owner of the tool loop instead of the usual one.
        memory: keeps conversations instead of the configured store. Neither is used where one of the advisors
            is a `MemoryAdvisor`, which brings its own.

    Raises:
        ConfigurationError: settings, tools or advisors that cannot work; the message says which and why.
    """
    settings = Settings() if settings is None else settings
    threads = ToolThreads(settings.tool_calling.threads)
    given = (
        discover(settings.tools.packages, threads=threads) if tools is None else settled_tools(*tools, threads=threads)
    )
    names = [tool.definition.name for tool in given if isinstance(tool, Tool)]  # providers are not asked for a log line
    manager = _manager(settings.tool_calling)
    loop_of = tool_calling_advisor or partial(ToolCallingAdvisor, manager)
    own: tuple[Advisor, ...] = (*load_advisors(settings.advisors), *advisors)
    summarizer = ModelSummarizer()
    if any(isinstance(advisor, MemoryAdvisor) for advisor in own):
        memory = None
    elif memory is None and settings.memory.enabled:
        memory = chat_memory(settings.memory, summarizer)
    habits: tuple[Advisor, ...] = (TraceAdvisor(), *_memory_advisors(settings.memory, memory, own, loop_of), *own)
    if settings.redis.url is not None:
        habits = (*habits, Fence())

    def model_of() -> ChatModel:
        return _model(settings) if model is None else model

    def client_of(answering: ChatModel) -> ChatClient:
        return ChatClient(
            answering,
            advisors=habits,
            tools=given,
            options=ChatOptions(tool_context=settings.tools.context),
            system=settings.model.system,
            tool_calling=settings.tool_calling.auto_register,
            tool_calling_advisor=loop_of,
        )

    client_of(model_of())  # what cannot work stops the start, not the first request

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[Mapping[str, Any]]:
        async with AsyncExitStack() as closing:
            client = client_of(model_of())
            closing.push_async_callback(client.model.aclose)
            summarizer.model = client.model
            conversations = memory if isinstance(memory, ConversationStore) else None
            if conversations is not None:
                await closing.enter_async_context(_started(conversations, settings.memory.keep_days))
            store = await closing.enter_async_context(_run_store(settings))
            runs = Runs(client, _limits(settings.runs), store)
            closing.push_async_callback(runs.drain, settings.server.drain)
            is_demo = model is None and not settings.model.configured and not settings.models
            announce(model=client.model.name, tools=names, demo=is_demo)
            yield {
                "gateway": Gateway(
                    client=client,
                    runs=runs,
                    conversations=conversations,
                    manager=manager,
                    max_body_bytes=settings.server.max_body_bytes,
                    commit_after=settings.stream.commit_after,
                    heartbeat=settings.stream.heartbeat,
                    drain_time=settings.server.drain,
                    demo_note=DEMO_NOTE if is_demo else None,
                )
            }

    return application(
        lifespan, version=__version__, docs=settings.server.docs, cors_origins=settings.server.cors_origins
    )


def _limits(settings: RunsSettings) -> RunLimits:
    return RunLimits(
        active=settings.max_active,
        deadline=settings.deadline,
        grace=settings.disconnect_grace,
    )


@asynccontextmanager
async def _run_store(settings: Settings) -> AsyncIterator[RunStore]:
    limits = JournalLimits(settings.runs.max_events, settings.runs.max_bytes)
    retention = Retention(settings.runs.max_kept, settings.runs.keep)
    store: RunStore = InMemoryRunStore(limits, retention)
    if settings.redis.url is not None:
        from app.runs.redis import RedisRunStore  # noqa: PLC0415 - costs 0.2 s, and most gateways are alone

        store = RedisRunStore(settings.redis.url.get_secret_value(), limits, retention, lease=settings.redis.lease)
    await store.start()
    try:
        yield store
    finally:
        await store.aclose()


def chat_memory(settings: MemorySettings, summarize: Summarize | None = None) -> ConversationStore:
    """The configured memory, not yet started.

    Args:
        settings: where it is, and how much it keeps.
        summarize: sums up what falls out, where that is wanted; None = it is forgotten.

    Raises:
        ConfigurationError: its address cannot be one.
    """
    wanted = Window(settings.max_messages, settings.max_tokens)
    if not settings.summarize or summarize is None:
        return _conversation_store(settings, wanted)
    return SummarizingMemory(_conversation_store(settings, wanted.times(2)), wanted, summarize)


def _conversation_store(settings: MemorySettings, window: Window) -> ConversationStore:
    address = settings.address
    if address == IN_MEMORY:
        warn_of_lone_memory(os.environ, sys.argv)
        return InMemoryChatMemory(window.messages, settings.max_conversations, window.tokens)
    path = sqlite_path(address)
    in_database = partial(_in_database, address, window)
    return in_database() if path is None else DeferredMemory(path, in_database)


def _in_database(address: str, window: Window) -> ConversationStore:
    from app.memory.sql import Database, SqlChatMemory  # noqa: PLC0415 - takes a while, and is not always wanted

    return SqlChatMemory(Database(address), window)


@asynccontextmanager
async def _started(memory: ConversationStore, keep_days: float | None) -> AsyncIterator[None]:
    try:
        await memory.start()
        async with _swept(memory, keep_days):
            yield
    finally:
        await memory.aclose()


@asynccontextmanager
async def _swept(memory: ConversationStore, keep_days: float | None) -> AsyncIterator[None]:
    if keep_days is None:
        yield
        return
    sweeping = asyncio.create_task(forget_old(memory, timedelta(days=keep_days)))
    try:
        yield
    finally:
        sweeping.cancel()
        await asyncio.wait([sweeping])


def _memory_advisors(
    settings: MemorySettings,
    memory: ChatMemory | None,
    advisors: Sequence[Advisor],
    loop_of: Callable[[], ToolAdvisor],
) -> tuple[MemoryAdvisor, ...]:
    if memory is None:
        return ()
    if not settings.inside_loop:
        return (MemoryAdvisor(memory),)
    loop = next((advisor for advisor in advisors if isinstance(advisor, ToolAdvisor)), None) or loop_of()
    return (MemoryAdvisor(memory, loop.order + 1),)


def _model(settings: Settings) -> ChatModel:
    routes = {alias: _targets(alias, servers) for alias, servers in settings.models.items()}
    if settings.model.configured:
        routes = {settings.model.name: (_target(settings.model, settings.model.name, None),), **routes}
    if not routes:
        return DemoModel()
    retry, breaker = settings.retry, settings.breaker
    return RoutedModel(
        routes,
        default=settings.model.name if settings.model.name in routes else None,
        retry=RetryPolicy(retry.attempts, retry.base_delay, retry.max_delay, retry.max_retry_after),
        budget=RetryBudget(ratio=retry.budget_ratio, floor=retry.budget_floor),
        breaker=BreakerPolicy(breaker.failures, breaker.recovery),
    )


def _targets(alias: str, servers: Sequence[TargetSettings]) -> tuple[Target, ...]:
    return tuple(
        _target(server, server.name or alias, server.target or f"{alias}-{number}", server.weight)
        for number, server in enumerate(servers, 1)
    )


def _target(settings: ModelServerSettings, model: str, name: str | None, weight: float | None = None) -> Target:
    # Whoever finds no free connection waits in the target's queue, which is bounded, and not in the pool's.
    at_once = min(settings.max_concurrency or settings.max_connections, settings.max_connections)
    limits = Limits(at_once, settings.max_queue, settings.queue_timeout)
    return Target(_server(settings, model), name, weight, limits, settings.total_timeout)


def _server(settings: ModelServerSettings, model: str) -> OpenAIModel:
    return OpenAIModel(
        settings.server_url,
        model=model,
        api_key=settings.api_key.get_secret_value() if settings.api_key else None,
        transport=HttpTransport(max_connections=settings.max_connections),
        profile=_profile(settings),
        timeouts=Timeouts(
            connect=settings.connect_timeout,
            first_byte=settings.first_byte_timeout,
            idle=settings.idle_timeout,
            total=settings.total_timeout,
        ),
        headers={name: text.get_secret_value() for name, text in settings.headers.items()},
        max_event=settings.max_event_bytes,
        max_answer=settings.max_answer_bytes,
    )


def _profile(settings: ModelServerSettings) -> Profile:
    return profile_for(settings.server_url, name=settings.profile.name, flags=settings.profile.flags)


def _manager(settings: ToolCallingSettings) -> ToolCallingManager:
    return ToolCallingManager(
        limits=ToolCallLimits(
            per_tool=settings.max_calls_per_tool,
            total=settings.max_total_calls,
            rounds=settings.max_rounds,
            identical=settings.max_identical_calls,
            on_limit=settings.on_limit,
            uncounted=frozenset(settings.uncounted),
        ),
        max_concurrency=settings.max_concurrency,
        timeout=settings.tool_timeout,
        error_details=settings.error_details,
        log_details=settings.log_details,
        raise_errors=settings.raise_errors,
    )

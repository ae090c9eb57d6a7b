"""Well-known model servers: where they are, what they want, and who says so.

A flag is set only where a source tells of a request that was refused or of a rule in the server's own documentation.
`docs/model-servers.md` is written from this table.
"""

from __future__ import annotations

from app.providers.profile import Profile, Variant
from app.providers.server import Server

_REASONING_MODELS = Variant(
    r"^(o\d|codex|gpt-[5-9])(?!.*chat)",
    {"system_role": "developer", "unsent_options": frozenset({"temperature", "top_p", "stop"})},
)
_FIRST_REASONING_MODELS = Variant(r"^o\d", {**_REASONING_MODELS.flags, "parallel_tool_calls": False})
_OPENAI = Profile(
    system_messages="many",
    max_tokens_field="max_completion_tokens",
    call_ids="at_most_40",
    reasoning_back="never",  # it returns none, and that of another server is a field it does not know
    variants=(_FIRST_REASONING_MODELS, _REASONING_MODELS),
)
_OPENAI_SOURCES = (
    "https://learn.microsoft.com/en-us/azure/ai-services/openai/how-to/reasoning",
    "https://github.com/run-llama/llama_index/issues/20865",
    "https://github.com/pydantic/pydantic-ai/issues/4389",
)
_MANY_SYSTEM_MESSAGES = "https://github.com/can1357/oh-my-pi/issues/958"
_ONE_SYSTEM_MESSAGE = "https://github.com/vllm-project/vllm/issues/41114"

SERVERS = (
    Server(
        "openai",
        "OpenAI",
        "https://api.openai.com/v1",
        _OPENAI,
        hosts=("api.openai.com",),
        model="gpt-4o-mini",
        notes=(
            "Reasoning models (`o…`, `gpt-5…` and later, but not `…-chat`) are known by their name.",
            "`strict_tools = true` holds the model to the tools' schemas.",
        ),
        sources=(*_OPENAI_SOURCES, _MANY_SYSTEM_MESSAGES),
    ),
    Server(
        "azure",
        "Azure OpenAI",
        "https://RESOURCE.openai.azure.com/openai/v1",
        _OPENAI,
        hosts=("openai.azure.com", "cognitiveservices.azure.com"),
        model="the name of your deployment",
        notes=(
            "A deployment of a reasoning model is known by its name only: let it begin as the model's does.",
            "An address with `?api-version=…` works too; the query is kept.",
            """A key can also go into a header: `GATEWAY_MODEL__HEADERS='{"api-key": "…"}'`.""",
        ),
        sources=(*_OPENAI_SOURCES, _MANY_SYSTEM_MESSAGES),
    ),
    Server(
        "anthropic",
        "Anthropic, compatible endpoint",
        "https://api.anthropic.com/v1",
        hosts=("api.anthropic.com",),
        model="claude-sonnet-4-5",
        notes=("Ignores `strict`, `seed` and `response_format`, and returns no reasoning.",),
        sources=(
            "https://platform.claude.com/docs/en/cli-sdks-libraries/libraries/openai-sdk",
            "https://github.com/requestyai/ai-sdk-requesty/pull/1",
        ),
    ),
    Server(
        "gemini",
        "Gemini, compatible endpoint",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        Profile(
            tool_names=True,
            reasoning_back="never",
            refused_keywords=frozenset({"additionalProperties", "const", "propertyNames"}),
        ),
        hosts=("generativelanguage.googleapis.com",),
        model="gemini-2.5-flash",
        notes=("Thought signatures in calls go back as they came; without them Gemini 3 refuses the next request.",),
        sources=(
            "https://github.com/NousResearch/hermes-agent/pull/19728",
            "https://github.com/openswarm-ai/openswarm/issues/24",
            "https://github.com/zed-industries/zed/issues/44875",
            "https://github.com/janhq/jan/issues/8136",
        ),
    ),
    Server(
        "mistral",
        "Mistral",
        "https://api.mistral.ai/v1",
        Profile(
            system_messages="many",
            seed_field="random_seed",
            stream_usage=False,
            call_ids="exactly_9",
            reasoning_back="never",
            extra_back=False,
        ),
        hosts=("api.mistral.ai",),
        model="mistral-small-latest",
        notes=("Refuses every field that it does not know, and reports usage unasked.",),
        sources=(
            "https://github.com/dnakov/anon-kode/issues/53",
            "https://github.com/BerriAI/litellm/issues/30835",
            "https://github.com/anomalyco/opencode/issues/1680",
            "https://docs.rs/crate/mistral-openapi-client/latest/source/docs/ChatCompletionRequest.md",
            _MANY_SYSTEM_MESSAGES,
        ),
    ),
    Server(
        "deepseek",
        "DeepSeek",
        "https://api.deepseek.com/v1",
        Profile(
            system_messages="many",
            reasoning_back="always",
            variants=(Variant("reasoner|v4", {"tool_choice": "auto"}),),
        ),
        hosts=("api.deepseek.com",),
        model="deepseek-chat",
        notes=("While it thinks it cannot be forced to call a tool.",),
        sources=(
            "https://github.com/anomalyco/opencode/issues/24722",
            "https://github.com/BerriAI/litellm/pull/37470",
            _MANY_SYSTEM_MESSAGES,
        ),
    ),
    Server(
        "moonshot",
        "Moonshot (Kimi)",
        "https://api.moonshot.ai/v1",
        Profile(
            max_tokens_field="max_completion_tokens",
            variants=(
                Variant(
                    "kimi",
                    {
                        "tool_choice": "auto",
                        "reasoning_back": "always",
                        "unsent_options": frozenset({"temperature", "top_p"}),
                    },
                ),
            ),
        ),
        hosts=("api.moonshot.ai", "api.moonshot.cn"),
        model="kimi-k2.6",
        notes=("Kimi models have a fixed temperature, and cannot be forced to call a tool.",),
        sources=(
            "https://java.agentscope.io/v2/en/integration/model/kimi",
            "https://docs.rs/crate/harn-vm/latest/source/src/llm/capability_sources/20-providers/35-moonshot.toml",
        ),
    ),
    Server(
        "dashscope",
        "Alibaba Model Studio (Qwen)",
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
        Profile(tool_choice="auto"),
        hosts=("dashscope.aliyuncs.com", "dashscope-*.aliyuncs.com"),
        model="qwen-plus",
        notes=("While it thinks it cannot be forced to call a tool.",),
        sources=("https://github.com/cloudwego/eino/issues/994", _MANY_SYSTEM_MESSAGES),
    ),
    Server(
        "groq",
        "Groq",
        "https://api.groq.com/openai/v1",
        Profile(system_messages="many", reasoning_back="never", extra_back=False),
        hosts=("api.groq.com",),
        model="llama-3.3-70b-versatile",
        notes=("Refuses `name` in messages, and fields of other servers' messages.",),
        sources=(
            "https://console.groq.com/docs/openai",
            "https://github.com/tashfeenahmed/freellmapi/issues/1070",
            _MANY_SYSTEM_MESSAGES,
        ),
    ),
    Server(
        "cerebras",
        "Cerebras",
        "https://api.cerebras.ai/v1",
        Profile(system_messages="many", reasoning_back="never", extra_back=False),
        hosts=("api.cerebras.ai",),
        model="gpt-oss-120b",
        sources=("https://github.com/Kilo-Org/kilocode/issues/10375", _MANY_SYSTEM_MESSAGES),
    ),
    Server(
        "xai",
        "xAI",
        "https://api.x.ai/v1",
        Profile(
            system_messages="many",
            variants=(
                Variant(
                    r"^grok-(3-mini|4|5|code)(?!.*non-reasoning)",
                    {"unsent_options": frozenset({"stop"})},
                ),
            ),
        ),
        hosts=("api.x.ai",),
        model="grok-4",
        sources=("https://github.com/langchain-ai/langchain/pull/38335", _MANY_SYSTEM_MESSAGES),
    ),
    Server(
        "openrouter",
        "OpenRouter",
        "https://openrouter.ai/api/v1",
        Profile(
            system_messages="many",
            call_ids="at_most_40",
            reasoning_field="reasoning",
        ),
        hosts=("openrouter.ai",),
        model="openai/gpt-4o-mini",
        notes=("`reasoning_details` go back as they came, which models behind it need while they call tools.",),
        sources=(
            "https://openrouter.ai/docs/use-cases/reasoning-tokens",
            "https://github.com/openclaw/openclaw/pull/875",
            _MANY_SYSTEM_MESSAGES,
        ),
    ),
    Server(
        "together",
        "Together AI",
        "https://api.together.xyz/v1",
        Profile(system_messages="many"),
        hosts=("api.together.xyz", "api.together.ai"),
        model="meta-llama/Llama-3.3-70B-Instruct-Turbo",
        sources=(_MANY_SYSTEM_MESSAGES,),
    ),
    Server(
        "bedrock",
        "Amazon Bedrock, chat completions",
        "https://bedrock-runtime.REGION.amazonaws.com/openai/v1",
        hosts=("bedrock-runtime.*.amazonaws.com", "bedrock-mantle.*.api.aws"),
        model="openai.gpt-oss-20b-1:0",
        notes=("The key is a Bedrock API key. Content of messages that hold calls only has to be null, as it is.",),
        sources=(
            "https://docs.aws.amazon.com/bedrock/latest/userguide/inference-chat-completions.html",
            "https://github.com/vercel/ai/pull/13505",
        ),
    ),
    Server(
        "litellm",
        "LiteLLM proxy",
        "http://localhost:4000/v1",
        model="what its configuration calls it",
        notes=(
            "Set `drop_params: true` there, or it refuses what the model behind it does not take.",
            "`thinking_blocks` go back as they came.",
        ),
        sources=("https://docs.litellm.ai/docs/completion/drop_params", _ONE_SYSTEM_MESSAGE),
    ),
    Server(
        "ollama",
        "Ollama",
        "http://localhost:11434/v1",
        Profile(empty_content="empty"),
        port=11434,
        needs_key=False,
        model="qwen3:8b",
        notes=("Its context is short unless told otherwise: set `OLLAMA_CONTEXT_LENGTH` where it runs.",),
        sources=("https://github.com/pydantic/pydantic-ai/issues/5206", _ONE_SYSTEM_MESSAGE),
    ),
    Server(
        "lm-studio",
        "LM Studio",
        "http://localhost:1234/v1",
        Profile(tool_choice="words"),
        port=1234,
        needs_key=False,
        model="the identifier that LM Studio shows",
        sources=("https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/670", _ONE_SYSTEM_MESSAGE),
    ),
    Server(
        "llama.cpp",
        "llama.cpp",
        "http://localhost:8080/v1",
        needs_key=False,
        model="any; it serves one",
        notes=("Start `llama-server` with `--jinja`, or there are no tool calls.",),
        sources=("https://github.com/ggml-org/llama.cpp/pull/14246",),
    ),
    Server(
        "vllm",
        "vLLM",
        "http://localhost:8000/v1",
        needs_key=False,
        model="what it was started with",
        notes=(
            "Start it with `--enable-auto-tool-choice --tool-call-parser …`, or it refuses tools.",
            "Thinking models need `--reasoning-parser …` as well.",
        ),
        sources=("https://docs.vllm.ai/en/latest/features/tool_calling/", _ONE_SYSTEM_MESSAGE),
    ),
)
"""The table. A server with the default profile is here for its notes, and so that it can be named."""

"""What can go wrong, in the gateway's own terms. No HTTP here: `app.web.errors` maps each class to a status.

The message of an error is written for whoever caused it and says what to do. It never holds a secret, a
prompt or tool data.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from app.chat.response import Usage


class GatewayError(Exception):
    """Base of everything the gateway raises on purpose."""


class ConfigurationError(GatewayError):
    """The gateway was put together wrongly: settings, tools or advisors that cannot work."""


class ModelError(GatewayError):
    """A call to the model server failed.

    Args:
        message: what happened, safe to show to a caller.
        status: HTTP status the server answered with, None where it did not get that far.
        code: the server's own error code (such as `insufficient_quota`); where the gateway found the fault, its own
            word for it (such as `unreachable`, `truncated`, `empty`); None where there is neither.
        retry_after: seconds after which the server wants to be asked again, None where it did not say.
        usage: tokens that the failed call used, as far as the server told them before it failed; None where it did
            not. Whoever asks again adds them to the answer (`ChatResponse.with_usage`), for they are billed.

    Attributes:
        target: which of several model servers it was, where that has a name; set by whoever chose it.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        retry_after: float | None = None,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.retry_after = retry_after
        self.usage = usage
        self.target: str | None = None


class ModelUnavailable(ModelError):
    """The server cannot be reached, answered 5xx, or ended its answer with an error of its own."""


class ModelRejected(ModelError):
    """The server refused the request (400, 401, 403, 404 and the like): the same request will fail again."""


class ContextLengthExceeded(ModelRejected):
    """The messages, with the answer asked for, do not fit into the model's context."""


class ContentRefused(ModelRejected):
    """The server refused the request for what it says. An answer that was cut for its content is no error."""


class ModelAuthenticationFailed(ModelRejected):
    """The server does not accept the key, or the key may not do this."""


class ModelNotFound(ModelRejected):
    """The server does not know the model, or has it no more."""


class ModelRateLimited(ModelError):
    """The server answered 429."""


class QuotaExceeded(ModelRateLimited):
    """The account's quota is used up: unlike a rate limit, waiting a moment does not help."""


class ModelTimeout(ModelError):
    """The server did not connect, begin or go on within the gateway's own limits.

    A server that itself says that something took too long (408, 504) is `ModelUnavailable`: no limit of ours was met.
    """


class ModelBusy(ModelError):
    """The gateway sends the server no more calls at a time than it may, and too many wait already."""


class ModelProtocolError(ModelError):
    """The answer is cut, empty, malformed or not what was asked for; it must not be taken for a short success."""


class ToolError(GatewayError):
    """A tool call did not give a result. Its text is what the model gets to read."""


class ToolNotFound(ToolError):
    """The model asked for a tool that it was not given."""


class ToolArgumentsInvalid(ToolError):
    """The arguments do not fit the tool's schema; the tool was not run."""


class ToolFailed(ToolError):
    """Raised by a tool on purpose: the message goes to the model, which can act on it."""


class ToolTimeout(ToolError):
    """The tool did not end within its time."""


LimitKind: TypeAlias = Literal["calls_per_tool", "total_calls", "rounds", "identical_calls"]


class ToolCallLimitExceeded(GatewayError):
    """A limit on tool calls of one turn was reached; the call was not run.

    Args:
        message: which limit, in words for the model.
        kind: which limit.
        limit: its value.
        tool: the tool that was asked for, None where the limit is not a tool's own.
    """

    def __init__(self, message: str, *, kind: LimitKind, limit: int, tool: str | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.limit = limit
        self.tool = tool

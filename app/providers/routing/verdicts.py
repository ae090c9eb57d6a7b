"""What the failure of one call to a model server means: for the call, for the other servers, for the breaker.

Nothing here looks at how much of an answer was delivered: after the first event nothing is ever tried again.
"""

from __future__ import annotations

from http import HTTPStatus

from app.chat import ModelError, ModelProtocolError, ModelRateLimited, ModelTimeout, ModelUnavailable, QuotaExceeded

_SPENT = "insufficient_quota"
_NOT_BEGUN = frozenset({"connect_timeout", "first_byte_timeout"})
"""Codes of time-outs before an answer had begun. Behind the others the time of the whole call is gone."""
_UNREACHABLE = "unreachable"
_NOTHING_OF_IT = frozenset({"empty", "truncated"})


def came_to_nothing(error: ModelError) -> bool:
    """Whether the answer had nothing in it, or broke off: a line that broke, or an end that is none."""
    return isinstance(error, ModelProtocolError) and error.code in _NOTHING_OF_IT


def may_pass(error: ModelError) -> bool:
    """Whether the same request to the same server may go well in a moment.

    True for a server that could not be reached, was busy (408, 409, 425, 429), failed (5xx, or an error in the place of
    an answer), did not begin in time, or whose answer was empty or broke off. A spent quota and every other 4xx stay as
    they are, and what cannot be read most likely is what the server always sends.
    """
    if isinstance(error, ModelTimeout):
        return error.code in _NOT_BEGUN
    if isinstance(error, ModelUnavailable | ModelRateLimited):
        return not _is_spent(error)
    return came_to_nothing(error)


def is_of_this_target(error: ModelError) -> bool:
    """Whether another target may answer where this one did not: what may pass, and a quota that only this one spent."""
    return may_pass(error) or _is_spent(error)


def breaks(error: ModelError) -> bool:
    """Whether it speaks against the server: no connection, no answer in time, or a 5xx.

    Not so a 4xx, which is the request's fault or asks for patience, and not a 200 that cannot be read: a model that
    answers strangely to one caller would be taken from all others.
    """
    if isinstance(error, ModelTimeout):
        return True
    if not isinstance(error, ModelUnavailable):
        return False
    if error.status is None:
        return error.code == _UNREACHABLE
    return error.status >= HTTPStatus.INTERNAL_SERVER_ERROR


def _is_spent(error: ModelError) -> bool:
    return isinstance(error, QuotaExceeded) or error.code == _SPENT

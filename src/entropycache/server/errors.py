"""Errors in the shape of OpenAI's API: ``{"error": {message, type, param, code}}``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ApiError(Exception):
    """An error to answer a request with, as HTTP ``status`` and a JSON body.

    ``code`` is a word for programs. ``param`` names the field of the request that is at fault.
    """

    def __init__(
        self,
        status: int,
        message: str,
        code: str,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code = status, message, code
        self.param, self.headers = param, dict(headers or {})

    @property
    def body(self) -> dict[str, Any]:
        """The JSON object that is sent to the client."""
        kind = _KINDS.get(self.status, "server_error" if self.status >= 500 else "invalid_request")
        return {
            "error": {
                "message": self.message,
                "type": kind,
                "param": self.param,
                "code": self.code,
            }
        }


_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    429: "rate_limit_error",
    503: "service_unavailable_error",
    504: "timeout_error",
}


def invalid(message: str, param: str | None, code: str = "invalid_value") -> ApiError:
    """The error (400) for a request that cannot be honoured; ``param`` is the field at fault."""
    return ApiError(400, message, code, param)


def unknown_model(given: str, served: str) -> ApiError:
    """The error (404) for a request to another model than the one that is served."""
    return ApiError(
        404, f"model {given!r} is not served here; {served!r} is", "model_not_found", "model"
    )


def overloaded(seconds: int) -> ApiError:
    """The error (429) for a full queue; the client may try again after ``seconds``."""
    return ApiError(
        429,
        "the queue is full; try again later",
        "queue_full",
        headers={"Retry-After": str(seconds)},
    )


def draining() -> ApiError:
    """The error (503) for a request to a server that is shutting down."""
    return ApiError(503, "the server is shutting down", "shutting_down")


def timed_out(seconds: float) -> ApiError:
    """The error (504) for a request that took longer than ``seconds``."""
    return ApiError(504, f"the request took longer than {seconds:g} seconds", "timeout")


def failed(message: str, code: str = "internal_error") -> ApiError:
    """The error (500) for a request that was accepted and could not be finished."""
    return ApiError(500, message, code)

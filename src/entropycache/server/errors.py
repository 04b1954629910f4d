"""Errors as OpenAI's API shapes them: ``{"error": {message, type, param, code}}``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ApiError(Exception):
    """An answer that is an error. ``param`` names the request's field at fault."""

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
        """The JSON object that tells the client."""
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
    """A request that cannot be honoured."""
    return ApiError(400, message, code, param)


def unknown_model(given: str, served: str) -> ApiError:
    """Another model than the one that is served."""
    return ApiError(
        404, f"model {given!r} is not served here; {served!r} is", "model_not_found", "model"
    )


def overloaded(seconds: int) -> ApiError:
    """No room in the queue; worth trying again after so many ``seconds``."""
    return ApiError(
        429,
        "the queue is full; try again later",
        "queue_full",
        headers={"Retry-After": str(seconds)},
    )


def draining() -> ApiError:
    """The server is about to end and takes nothing new."""
    return ApiError(503, "the server is shutting down", "shutting_down")


def timed_out(seconds: float) -> ApiError:
    """A request that took too long."""
    return ApiError(504, f"the request took longer than {seconds:g} seconds", "timeout")


def failed(message: str, code: str = "internal_error") -> ApiError:
    """A request that was accepted and could not be finished."""
    return ApiError(500, message, code)

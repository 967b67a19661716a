"""What the clients raise. No error contains the token."""

from __future__ import annotations

import builtins
from typing import Any, Optional, Union

from .schema import Pending, Refusal, RefusalCode, RefusalError, Stage


class SafeToolCallError(Exception):
    """The base class of this module's errors."""


class ConnectionError(SafeToolCallError, builtins.ConnectionError):
    """No answer of the service came, after all retries."""

    def __init__(self, message: str, *, may_have_run: bool, status: Optional[int] = None) -> None:
        super().__init__(message)
        self.may_have_run = may_have_run
        """Whether the service may have run the call although no answer came."""
        self.status = status
        """HTTP status of the last answer, if one came."""
        self._is_lasting = False


class ProtocolError(ConnectionError):
    """An answer came that is not the service's: a proxy's page, a redirect, cut off or too large."""


class RefusedError(SafeToolCallError):
    """The service refused. `unwrap` and all methods but `call`, `run` and `dry_run` raise it."""

    def __init__(self, refused: Union[Refusal, Pending]) -> None:
        error = _asked(refused) if refused["status"] == "pending" else refused["error"]
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: RefusalCode = error["code"]
        self.stage: Stage = error["stage"]
        self.message: str = error["message"]
        self.details: dict[str, Any] = error.get("details") or {}
        self.retryable: bool = error["retryable"]
        self.retry_after_ms: Optional[float] = error.get("retryAfterMs")
        self.trace_id: Optional[str] = refused.get("traceId")


def _asked(pending: Pending) -> RefusalError:
    approval = pending["approval"]
    details: dict[str, Any] = {"approval": dict(approval)}
    message = approval["message"]
    return {"code": "APPROVAL_REQUIRED", "stage": "APPROVAL", "message": message, "details": details, "retryable": False}

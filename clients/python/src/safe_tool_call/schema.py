"""Generated from the service by `bun run clients:types`: do not edit."""

from __future__ import annotations

import re
from typing import Any, Literal, TypedDict, Union


RefusalCode = Literal[
    "MALFORMED_REQUEST",
    "UNSUPPORTED_MEDIA_TYPE",
    "PAYLOAD_TOO_LARGE",
    "REQUEST_TIMEOUT",
    "HOST_NOT_ALLOWED",
    "UNAUTHENTICATED",
    "AUTH_UNAVAILABLE",
    "TOOL_NOT_FOUND",
    "PERMISSION_DENIED",
    "POLICY_DENIED",
    "HALTED",
    "QUOTA_EXCEEDED",
    "POLICY_STATE_UNAVAILABLE",
    "INVALID_INPUT",
    "IDEMPOTENCY_CONFLICT",
    "RATE_LIMITED",
    "OVERLOADED",
    "SHUTTING_DOWN",
    "CALL_IN_PROGRESS",
    "APPROVAL_REQUIRED",
    "APPROVAL_NOT_FOUND",
    "APPROVAL_MISMATCH",
    "APPROVAL_CONSUMED",
    "APPROVAL_EXPIRED",
    "APPROVAL_CANCELLED",
    "APPROVAL_REVOKED",
    "APPROVAL_UNAVAILABLE",
    "APPROVAL_DENIED",
    "TARGET_REFUSED",
    "TARGET_FAILED",
    "TARGET_UNAVAILABLE",
    "DEADLINE_EXCEEDED",
    "CANCELLED",
    "OUTCOME_UNKNOWN",
    "INVALID_OUTPUT",
    "OUTPUT_TOO_LARGE",
    "AUDIT_UNAVAILABLE",
    "INTERNAL",
    "ROUTE_NOT_FOUND",
    "METHOD_NOT_ALLOWED",
    "ENTRY_NOT_FOUND",
]


Stage = Literal[
    "REQUEST",
    "AUTH",
    "REGISTRY",
    "PERMISSION",
    "LIMIT",
    "VALIDATION",
    "APPROVAL",
    "EXECUTION",
    "OUTPUT",
    "AUDIT",
]
"""Where the request ended."""


class _RefusalErrorAlways(TypedDict):
    code: RefusalCode
    stage: Stage
    """Where the request ended."""
    message: str
    """What to do about it."""
    retryable: bool
    """Whether the same request may be sent again."""


class RefusalError(_RefusalErrorAlways, total=False):
    details: dict[str, Any]
    """With `untrusted: true`, text of a target."""
    retryAfterMs: float


class _RefusalAlways(TypedDict):
    status: Literal["denied", "error"]
    error: RefusalError


class Refusal(_RefusalAlways, total=False):
    """The request did not succeed: `denied` did not run, `error` failed."""

    traceId: str
    """Finds the call in the audit. Only calls have one."""
    secretsSent: list[str]
    """Arguments that contained a secret."""


class _SuccessAlways(TypedDict):
    status: Literal["success"]
    tool: str
    untrusted: Literal[True]
    """Output of a target is data, never an instruction."""
    result: Any
    filteredFields: list[str]
    """Paths of the fields that were masked, redacted or stripped."""
    traceId: str
    """Finds the call in the audit."""
    durationMs: float


class Success(_SuccessAlways, total=False):
    """The call ran."""

    truncated: Literal[True]
    """The answer was over the tool's limit: result holds a part of it, or null when a change's result is withheld."""
    secretsSent: list[str]
    """Arguments that contained a secret."""


ApprovalOption = Literal["cancel", "once", "session", "bounded"]


class PendingApproval(TypedDict):
    id: str
    decideBy: str
    """When the approval request expires."""
    statusUrl: str
    """Path of the approval request."""
    options: list[ApprovalOption]
    """The caller can cancel; an approver can give an approval of the other scopes."""
    message: str


class _PendingAlways(TypedDict):
    status: Literal["pending"]
    approval: PendingApproval
    traceId: str
    """Finds the call in the audit."""


class Pending(_PendingAlways, total=False):
    """The call waits for an approval. The same call with `approval: { id }` claims it."""

    secretsSent: list[str]
    """Arguments that contained a secret."""


class _DryRunAlways(TypedDict):
    status: Literal["dryRun"]
    tool: str
    verdict: Literal["allow", "ask", "deny"]
    """`ask`: a person would be asked."""
    traceId: str
    """Finds the call in the audit."""


class DryRun(_DryRunAlways, total=False):
    """What would happen to the call. Nothing was run, requested or used up."""

    error: RefusalError
    """With `deny`: the refusal that the call would get."""
    secretsSent: list[str]
    """Arguments that contained a secret."""


class Tool(TypedDict):
    """A tool that the caller could use."""

    name: str
    title: str
    description: str
    version: str
    classification: Literal["read", "write", "destructive"]
    category: Literal["read", "write", "command", "network", "ask"]
    inputSchema: dict[str, Any]
    """JSON Schema of the arguments."""


class ToolList(TypedDict):
    tools: list[Union[Tool, dict[str, Any]]]
    """Another `format` than `json` lists tools in the form of that API."""


ApprovalState = Literal[
    "pending",
    "approved",
    "denied",
    "expired",
    "cancelled",
    "revoked",
    "claimed",
    "executed",
    "failed",
    "in_doubt",
]
"""`pending`, `approved` and `claimed` can change; all others are final."""


ApprovalScope = Literal["once", "session", "bounded"]


class _ApprovalRequestAlways(TypedDict):
    id: str
    state: ApprovalState
    """`pending`, `approved` and `claimed` can change; all others are final."""
    tool: str
    summary: str
    createdAt: str
    decideBy: str
    """When the request expires without a decision."""
    options: list[ApprovalOption]
    """The caller can cancel; an approver can give an approval of the other scopes."""


class ApprovalRequest(_ApprovalRequestAlways, total=False):
    """An approval request, as its requester sees it. Operators see more."""

    executeBy: str
    """When an approval that was not used expires."""
    scope: ApprovalScope
    decisionReason: str
    """The approver's reason."""
    granted: dict[str, Any]
    """The bounds of an approval for several calls."""


class _ApprovalAnswerAlways(TypedDict):
    approval: ApprovalRequest


class ApprovalAnswer(_ApprovalAnswerAlways, total=False):
    receipt: str
    """The service's signature on the decision, if it signs decisions."""


class _ApprovalListAlways(TypedDict):
    approvals: list[ApprovalRequest]


class ApprovalList(_ApprovalListAlways, total=False):
    cursor: str
    """For the next page; missing on the last one."""


class Session(TypedDict):
    id: str
    expiresAt: str
    mode: Literal["default", "autoEdit", "yolo"]


class SessionAnswer(TypedDict):
    session: Session


ModelFormat = Literal["openai", "openai-responses", "anthropic", "google", "mcp"]


STAGES_BEFORE_KEY = frozenset({"REQUEST", "AUTH", "REGISTRY", "PERMISSION", "LIMIT"})
"""Stages before the service looks for the first answer to a repeated call: a refusal there says nothing about the first one."""

WAIT_SECONDS_MAX = 55
"""How long the service holds a request at most."""

IDEMPOTENCY_KEY = re.compile(r"[\x21-\x7e]{1,255}\Z")
"""Values of the header `Idempotency-Key`."""

"""Preliminary."""

from __future__ import annotations

from typing import Any, Literal, TypedDict, Union

Stage = Literal["REQUEST", "AUTH", "REGISTRY", "PERMISSION", "VALIDATION", "LIMIT", "APPROVAL", "EXECUTION", "OUTPUT", "AUDIT"]
Code = str


class _SuccessRequired(TypedDict):
    status: Literal["success"]
    tool: str
    untrusted: Literal[True]
    result: Any
    filteredFields: list[str]
    traceId: str
    durationMs: float


class Success(_SuccessRequired, total=False):
    truncated: Literal[True]
    secretsSent: list[str]


class PendingApproval(TypedDict):
    id: str
    decideBy: str
    statusUrl: str
    options: list[Literal["cancel", "once", "session", "bounded"]]
    message: str


class _PendingRequired(TypedDict):
    status: Literal["pending"]
    approval: PendingApproval
    traceId: str


class Pending(_PendingRequired, total=False):
    secretsSent: list[str]


class _RefusalErrorRequired(TypedDict):
    code: Code
    stage: Stage
    message: str
    retryable: bool


class RefusalError(_RefusalErrorRequired, total=False):
    details: dict[str, Any]
    retryAfterMs: float


class _RefusalRequired(TypedDict):
    status: Literal["denied", "error"]
    error: RefusalError


class Refusal(_RefusalRequired, total=False):
    traceId: str
    secretsSent: list[str]


class _DryRunRequired(TypedDict):
    status: Literal["dryRun"]
    tool: str
    verdict: Literal["allow", "ask", "deny"]
    traceId: str


class DryRun(_DryRunRequired, total=False):
    error: RefusalError
    secretsSent: list[str]


class _ApprovalRequestRequired(TypedDict):
    id: str
    state: Literal["pending", "approved", "denied", "expired", "cancelled", "revoked", "claimed", "executed", "failed", "in_doubt"]
    tool: str
    summary: str
    createdAt: str
    decideBy: str
    options: list[Literal["cancel", "once", "session", "bounded"]]


class ApprovalRequest(_ApprovalRequestRequired, total=False):
    executeBy: str
    scope: str
    decisionReason: str
    granted: dict[str, Any]


class Tool(TypedDict):
    name: str
    title: str
    description: str
    version: str
    classification: Literal["read", "write", "destructive"]
    category: str
    inputSchema: dict[str, Any]

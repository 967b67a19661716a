"""Calls the tools of a Safe Tool Call service."""

from ._flow import ToolCallResult
from .client import AsyncClient, Client, unwrap
from .errors import ConnectionError, ProtocolError, RefusedError, SafeToolCallError
from .schema import ApprovalRequest, DryRun, Pending, Refusal, Success, Tool

__all__ = [
    "ApprovalRequest",
    "AsyncClient",
    "Client",
    "ConnectionError",
    "DryRun",
    "Pending",
    "ProtocolError",
    "Refusal",
    "RefusedError",
    "SafeToolCallError",
    "Success",
    "Tool",
    "ToolCallResult",
    "unwrap",
]

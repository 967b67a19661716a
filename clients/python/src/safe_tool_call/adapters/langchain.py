"""The caller's tools for LangChain's agents and LangGraph."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Optional, Union

from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, ToolException
from pydantic import PrivateAttr
from typing_extensions import Unpack

from ..client import AsyncClient, Client
from ._core import ModelCall, ModelCalls, ModelResult, OfferedTool, Options, PendingCall, aoffered_tools, offered_tools

__all__ = ["PendingCall", "alangchain_tools", "langchain_tools"]


def langchain_tools(client: Client, **options: Unpack[Options]) -> "list[BaseTool]":
    """Reads the caller's tools, for `invoke`; `ainvoke` runs them in a thread.

    With `on_pending="return"` in a graph with a checkpointer, a call that asks a person interrupts the graph; whatever the graph is
    resumed with, the call then waits for the service's approver.
    """
    calls = ModelCalls(client, options)
    return [_ServiceTool(calls, offered) for offered in offered_tools(client, options)]


async def alangchain_tools(client: AsyncClient, **options: Unpack[Options]) -> "list[BaseTool]":
    """As `langchain_tools`, for `ainvoke` only."""
    calls = ModelCalls(client, options)
    return [_ServiceTool(calls, offered) for offered in await aoffered_tools(client, options)]


class _ServiceTool(BaseTool):
    _calls: ModelCalls = PrivateAttr()

    def __init__(self, calls: ModelCalls, offered: OfferedTool) -> None:
        super().__init__(
            name=offered.name, description=offered.description, args_schema=offered.schema, handle_tool_error=lambda error: str(error)
        )
        self._calls = calls

    def _to_args_and_kwargs(
        self, tool_input: Union[str, "dict[str, Any]"], tool_call_id: Optional[str]
    ) -> "tuple[tuple[Any, ...], dict[str, Any]]":
        # The service checks the arguments: its refusal names the field and the allowed values. An argument may have any name.
        return (tool_input, tool_call_id), {}

    def _run(self, args: Any, call_id: Optional[str], *, config: RunnableConfig) -> str:
        call = self._call(args, call_id, config)
        result = self._calls.make(call)
        if self._is_interrupted(result, config):
            result = self._calls.make(_waiting(call))
        return _text_of(result)

    async def _arun(self, args: Any, call_id: Optional[str], *, config: RunnableConfig) -> str:
        if isinstance(self._calls.client, Client):
            return await super()._arun(args, call_id, config=config)  # type: ignore[no-any-return]
        call = self._call(args, call_id, config)
        result = await self._calls.amake(call)
        if self._is_interrupted(result, config):
            result = await self._calls.amake(_waiting(call))
        return _text_of(result)

    def _call(self, args: Any, call_id: Optional[str], config: RunnableConfig) -> ModelCall:
        found = config.get("configurable") or {}
        if "checkpoint_ns" not in found:
            return ModelCall(self.name, args, call_id)
        # A graph runs a task again after an interruption or a crash, with all its calls: this key finds their answers.
        identity = [found.get("thread_id"), found["checkpoint_ns"], call_id, self.name, args]
        key = hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()
        return ModelCall(self.name, args, call_id, idempotency_key=key)

    def _is_interrupted(self, result: ModelResult, config: RunnableConfig) -> bool:
        """Interrupts a graph; returns True when it was resumed."""
        checkpointer = (config.get("configurable") or {}).get("__pregel_checkpointer")
        if result.pending is None or not self._calls.interrupts or checkpointer is None:
            return False
        from langgraph.types import interrupt

        interrupt(result.pending)
        return True


def _waiting(call: ModelCall) -> ModelCall:
    return ModelCall(call.name, call.args, call.id, call.idempotency_key, waits=True)


def _text_of(result: ModelResult) -> str:
    if result.is_error:
        raise ToolException(result.text)
    return result.text

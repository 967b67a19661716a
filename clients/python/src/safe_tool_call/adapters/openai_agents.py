"""The caller's tools for agents of the OpenAI Agents SDK."""

from __future__ import annotations

from typing import Any

from agents import FunctionTool, RunContextWrapper
from agents.tool import Tool
from agents.tool_context import ToolContext
from typing_extensions import Unpack

from ..client import AsyncClient
from ._core import ModelCall, ModelCalls, OfferedTool, Options, PendingCall, aoffered_tools

__all__ = ["PendingCall", "agent_tools"]


async def agent_tools(client: AsyncClient, **options: Unpack[Options]) -> "list[Tool]":
    """Reads the caller's tools, for `Agent(tools=…)`.

    With `on_pending="return"`, a call that asks a person interrupts the run. `state.approve(interruption)` and a new run make it
    again, which waits for the service's approver; what the program approves decides nothing.
    """
    calls = ModelCalls(client, options)
    return [_function_tool(calls, offered) for offered in await aoffered_tools(client, options)]


def _function_tool(calls: ModelCalls, offered: OfferedTool) -> FunctionTool:
    name = offered.name
    answered: dict[str, str] = {}

    async def needs_approval(context: RunContextWrapper[Any], args: "dict[str, Any]", call_id: str) -> bool:
        if call_id in answered or context.is_tool_approved(name, call_id) is not None:
            return False
        result = await calls.aask(ModelCall(name, args, call_id))
        # Answered although it was to ask: an approver was faster, or a grant covers it. It has run, and must not run again.
        if result is not None and result.pending is None:
            answered[call_id] = result.text
        return result is not None and result.pending is not None

    async def invoke(context: ToolContext[Any], args: str) -> str:
        call_id = context.tool_call_id
        if call_id in answered:
            return answered.pop(call_id)
        resumed = calls.interrupts and context.is_tool_approved(name, call_id) is True
        # Without a key, the call uses the approval that was requested for it, also after a restart of this program.
        call = ModelCall(name, args, call_id, idempotency_key=False, waits=True) if resumed else ModelCall(name, args, call_id)
        return (await calls.amake(call)).text

    return FunctionTool(
        name=name,
        description=offered.description,
        params_json_schema=offered.schema,
        on_invoke_tool=invoke,
        strict_json_schema=False,
        needs_approval=needs_approval if calls.interrupts else False,
    )

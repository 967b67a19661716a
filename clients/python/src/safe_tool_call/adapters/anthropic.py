"""The caller's tools for loops over Anthropic's messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from anthropic.types import MessageParam, ToolParam, ToolResultBlockParam
from typing_extensions import Unpack

from ..client import AsyncClient, Client
from ._core import ModelCalls, ModelResult, Part, PendingCall, StrictOptions, atools_in, table_of, tools_in

__all__ = ["MessagesTools", "PendingCall", "amessages_tools", "messages_tools"]


class MessagesTools:
    """The caller's tools for `client.messages`."""

    def __init__(self, calls: ModelCalls, tools: "list[ToolParam]") -> None:
        self._calls = calls
        self.tools = tools

    def answer(self, messages: Iterable[Any]) -> "list[MessageParam]":
        """Makes the calls in `messages` that have no result yet. Returns the message to append, in a list; none without calls."""
        return _message(self._calls.answer(_parts_of(messages), _result))

    async def aanswer(self, messages: Iterable[Any]) -> "list[MessageParam]":
        """As `answer`, with an AsyncClient; all calls at once."""
        return _message(await self._calls.aanswer(_parts_of(messages), _result))


def messages_tools(client: Client, **options: Unpack[StrictOptions]) -> MessagesTools:
    """Reads the caller's tools."""
    return MessagesTools(ModelCalls(client, options), tools_in("anthropic", client, options))


async def amessages_tools(client: AsyncClient, **options: Unpack[StrictOptions]) -> MessagesTools:
    """As `messages_tools`, for `aanswer`."""
    return MessagesTools(ModelCalls(client, options), await atools_in("anthropic", client, options))


def _message(results: "list[ToolResultBlockParam]") -> "list[MessageParam]":
    return [{"role": "user", "content": results}] if results else []


def _parts_of(messages: Iterable[Any]) -> Iterator[Part]:
    for message in map(table_of, messages):
        content = message.get("content")
        for block in map(table_of, content if isinstance(content, list) else []):
            if block.get("type") == "tool_use" and message.get("role") == "assistant":
                yield Part(block["id"], block["name"], block["input"])
            if block.get("type") == "tool_result" and message.get("role") == "user":
                yield Part(block["tool_use_id"], is_result=True, content=block.get("content"))


def _result(part: Part, result: ModelResult) -> ToolResultBlockParam:
    return {"type": "tool_result", "tool_use_id": part.id, "content": result.text, "is_error": result.is_error}

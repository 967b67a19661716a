"""The caller's tools for loops over OpenAI's chat completions and Responses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionToolMessageParam
from openai.types.responses import FunctionToolParam
from openai.types.responses.response_input_param import FunctionCallOutput
from typing_extensions import Unpack

from ..client import AsyncClient, Client
from ._core import ModelCalls, ModelResult, Part, PendingCall, StrictOptions, atools_in, table_of, tools_in

__all__ = ["ChatCompletionTools", "PendingCall", "ResponsesTools", "achat_completion_tools", "aresponses_tools", "chat_completion_tools", "responses_tools"]


class ChatCompletionTools:
    """The caller's tools for `client.chat.completions`."""

    def __init__(self, calls: ModelCalls, tools: "list[ChatCompletionFunctionToolParam]") -> None:
        self._calls = calls
        self.tools = tools

    def answer(self, messages: Iterable[Any]) -> "list[ChatCompletionToolMessageParam]":
        """Makes the calls in `messages` that have no result yet. Returns the messages to append."""
        return self._calls.answer(_parts_of_messages(messages), _tool_message)

    async def aanswer(self, messages: Iterable[Any]) -> "list[ChatCompletionToolMessageParam]":
        """As `answer`, with an AsyncClient; all calls at once."""
        return await self._calls.aanswer(_parts_of_messages(messages), _tool_message)


def chat_completion_tools(client: Client, **options: Unpack[StrictOptions]) -> ChatCompletionTools:
    """Reads the caller's tools."""
    return ChatCompletionTools(ModelCalls(client, options), tools_in("openai", client, options))


async def achat_completion_tools(client: AsyncClient, **options: Unpack[StrictOptions]) -> ChatCompletionTools:
    """As `chat_completion_tools`, for `aanswer`."""
    return ChatCompletionTools(ModelCalls(client, options), await atools_in("openai", client, options))


class ResponsesTools:
    """The caller's tools for `client.responses`."""

    def __init__(self, calls: ModelCalls, tools: "list[FunctionToolParam]") -> None:
        self._calls = calls
        self.tools = tools

    def answer(self, items: Iterable[Any]) -> "list[FunctionCallOutput]":
        """Makes the calls in `items` that have no output yet. Returns the items to append."""
        return self._calls.answer(_parts_of_items(items), _call_output)

    async def aanswer(self, items: Iterable[Any]) -> "list[FunctionCallOutput]":
        """As `answer`, with an AsyncClient; all calls at once."""
        return await self._calls.aanswer(_parts_of_items(items), _call_output)


def responses_tools(client: Client, **options: Unpack[StrictOptions]) -> ResponsesTools:
    """Reads the caller's tools."""
    return ResponsesTools(ModelCalls(client, options), tools_in("openai-responses", client, options))


async def aresponses_tools(client: AsyncClient, **options: Unpack[StrictOptions]) -> ResponsesTools:
    """As `responses_tools`, for `aanswer`."""
    return ResponsesTools(ModelCalls(client, options), await atools_in("openai-responses", client, options))


def _parts_of_messages(messages: Iterable[Any]) -> Iterator[Part]:
    for message in map(table_of, messages):
        if message.get("role") == "tool":
            yield Part(message["tool_call_id"], is_result=True, content=message["content"])
        for call in (message.get("tool_calls") or []) if message.get("role") == "assistant" else []:
            function = call.get("function") or {"name": call["custom"]["name"], "arguments": call["custom"]["input"]}
            yield Part(call["id"], function["name"], function["arguments"])


def _parts_of_items(items: Iterable[Any]) -> Iterator[Part]:
    for item in map(table_of, items):
        if item.get("type") == "function_call":
            yield Part(item["call_id"], item["name"], item["arguments"])
        if item.get("type") == "function_call_output":
            yield Part(item["call_id"], is_result=True, content=item["output"])


def _tool_message(part: Part, result: ModelResult) -> ChatCompletionToolMessageParam:
    return {"role": "tool", "tool_call_id": part.id, "content": result.text}


def _call_output(part: Part, result: ModelResult) -> FunctionCallOutput:
    return {"type": "function_call_output", "call_id": part.id, "output": result.text}

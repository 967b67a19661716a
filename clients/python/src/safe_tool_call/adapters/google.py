"""The caller's tools for loops over Google's generateContent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from google.genai import types
from typing_extensions import Unpack

from ..client import AsyncClient, Client
from ._core import ModelCalls, ModelResult, Options, Part, PendingCall, atools_in, table_of, tools_in

__all__ = ["ContentTools", "PendingCall", "acontent_tools", "content_tools"]


class ContentTools:
    """The caller's tools for `client.models.generate_content`."""

    def __init__(self, calls: ModelCalls, declarations: "list[dict[str, Any]]") -> None:
        self._calls = calls
        functions = [
            types.FunctionDeclaration(
                name=each["name"], description=each["description"], parameters_json_schema=each["parametersJsonSchema"]
            )
            for each in declarations
        ]
        self.tools: types.ToolListUnion = [types.Tool(function_declarations=functions)] if functions else []

    def answer(self, contents: Iterable[Any]) -> "list[types.Content]":
        """Makes the calls in `contents` that have no response yet. Returns the content to append, in a list; none without calls."""
        return _content(self._calls.answer(_parts_of(contents), _response))

    async def aanswer(self, contents: Iterable[Any]) -> "list[types.Content]":
        """As `answer`, with an AsyncClient; all calls at once."""
        return _content(await self._calls.aanswer(_parts_of(contents), _response))


def content_tools(client: Client, **options: Unpack[Options]) -> ContentTools:
    """Reads the caller's tools."""
    return ContentTools(ModelCalls(client, options), tools_in("google", client, {**options, "strict": False}))


async def acontent_tools(client: AsyncClient, **options: Unpack[Options]) -> ContentTools:
    """As `content_tools`, for `aanswer`."""
    return ContentTools(ModelCalls(client, options), await atools_in("google", client, {**options, "strict": False}))


def _content(parts: "list[types.Part]") -> "list[types.Content]":
    return [types.Content(role="user", parts=parts)] if parts else []


def _parts_of(contents: Iterable[Any]) -> Iterator[Part]:
    """A call without an id is paired with the next response of its name."""
    for content in map(table_of, contents):
        for part in map(table_of, content.get("parts") or []):
            call = part.get("function_call") or part.get("functionCall")
            if call is not None:
                call = table_of(call)
                yield Part(call.get("id") or call["name"], call["name"], call.get("args") or {})
            response = part.get("function_response") or part.get("functionResponse")
            if response is not None:
                response = table_of(response)
                yield Part(response.get("id") or response["name"], is_result=True, content=response.get("response"))


def _response(part: Part, result: ModelResult) -> types.Part:
    id = None if part.id == part.name else part.id
    return types.Part(function_response=types.FunctionResponse(id=id, name=part.name, response=result.content))

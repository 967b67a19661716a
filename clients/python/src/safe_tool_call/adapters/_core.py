"""What all adapters share: the caller's tools, and what the model gets for its calls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Optional, TypedDict, TypeVar, Union, cast

from .. import _flow as flow
from .._flow import ToolCallResult, Flow
from ..client import AsyncClient, Client
from ..errors import ConnectionError, RefusedError
from ..schema import ModelFormat, Pending, PendingApproval

T = TypeVar("T")


class PendingCall(TypedDict):
    """A call of the model that waits for an approver."""

    tool: str
    args: dict[str, Any]
    approval: PendingApproval


OnPending = Union[Literal["return"], Callable[[PendingCall], object], None]
"""Called when a person is asked; may be asynchronous with an AsyncClient. The call then waits for the decision. After "return" it
does not wait: the framework is interrupted, or the model is asked to make the call again later."""


class Options(TypedDict, total=False):
    """Settings that all adapters share."""

    only: Sequence[str]
    """Offers only these of the caller's tools, and refuses calls of the others."""
    on_pending: OnPending
    approval_timeout: float
    """Longest wait for a decision, in seconds. Afterwards, the model is asked to make the call again later."""


class StrictOptions(Options, total=False):
    """Settings of adapters for APIs with a strict mode."""

    strict: bool
    """Uses the strict mode for the tools whose schemas it can express: the model's arguments then always fit the schema."""


@dataclass(frozen=True)
class OfferedTool:
    name: str
    description: str
    schema: dict[str, Any]


def tools_in(format: ModelFormat, client: Client, options: StrictOptions) -> "list[Any]":
    """Reads the tools that the caller may use, in the form of a model's API."""
    return _offered(client.tools(format, strict=options.get("strict", False)), options)


async def atools_in(format: ModelFormat, client: AsyncClient, options: StrictOptions) -> "list[Any]":
    """As `tools_in`."""
    return _offered(await client.tools(format, strict=options.get("strict", False)), options)


def _offered(listed: "list[dict[str, Any]]", options: Options) -> "list[dict[str, Any]]":
    only = options.get("only")
    return [tool for tool in listed if only is None or tool.get("function", tool)["name"] in only]


def offered_tools(client: Client, options: Options) -> "list[OfferedTool]":
    """Reads the tools that the caller may use."""
    return [_tool(each) for each in tools_in("openai", client, {**options, "strict": False})]


async def aoffered_tools(client: AsyncClient, options: Options) -> "list[OfferedTool]":
    """As `offered_tools`."""
    return [_tool(each) for each in await atools_in("openai", client, {**options, "strict": False})]


def _tool(listed: "dict[str, Any]") -> OfferedTool:
    function = listed["function"]
    return OfferedTool(function["name"], function["description"], function["parameters"])


@dataclass(frozen=True)
class ModelCall:
    """A call as the model made it: `args` is JSON text, or the object that it means."""

    name: str
    args: object
    id: Optional[str] = None
    """For correlation only: some models name their calls `call_0` in each turn."""
    idempotency_key: Union[str, Literal[False], None] = None
    waits: bool = False
    """Whether this call waits for a decision whatever the settings say, because the framework was interrupted for it before."""


@dataclass(frozen=True)
class ModelResult:
    """What the model gets: `{"untrusted": true, "output"}`, with `"truncated": true` when it is partial, or `{"error"}`."""

    content: dict[str, Any]
    pending: Optional[PendingCall] = None

    @property
    def text(self) -> str:
        return flow.to_json(self.content)

    @property
    def is_error(self) -> bool:
        return "error" in self.content


@dataclass(frozen=True)
class Part:
    """A call or, with `content`, its result in a stored conversation. Calls and results are paired by id, in their order."""

    id: str
    name: str = ""
    args: object = None
    is_result: bool = False
    content: object = None


class ModelCalls:
    """Makes the model's calls, and keeps what became of them."""

    def __init__(self, client: Union[Client, AsyncClient], options: Options) -> None:
        self.client = client
        self._only = options.get("only")
        self._on_pending = options.get("on_pending")
        self._approval_timeout = options.get("approval_timeout")
        self._waiting: dict[str, list[str]] = {}
        """Approvals of calls that were left waiting, by tool and arguments."""

    @property
    def interrupts(self) -> bool:
        return self._on_pending == "return"

    def make(self, call: ModelCall) -> ModelResult:
        """Makes a call of the model. Refusals and lost connections are for the model: they are not raised."""
        return cast(Client, self.client)._do(self._call(call))

    async def amake(self, call: ModelCall) -> ModelResult:
        return await cast(AsyncClient, self.client)._do(self._call(call))

    async def aask(self, call: ModelCall) -> Optional[ModelResult]:
        """Asks for the approval of a call that needs one, without waiting. Returns None for a call that asks nobody."""
        args = _object_of(call.args)
        if args is None or not self._offers(call.name):
            return None
        try:
            judged = await cast(AsyncClient, self.client).dry_run(call.name, args)
        except ConnectionError:
            return None
        return await self.amake(call) if judged["status"] == "dryRun" and judged["verdict"] == "ask" else None

    def answer(self, parts: Iterable[Part], write: Callable[[Part, ModelResult], T]) -> "list[T]":
        """Makes the calls of a conversation that have no result yet."""
        return [write(part, self.make(_made(part))) for part in self._unanswered(parts)]

    async def aanswer(self, parts: Iterable[Part], write: Callable[[Part, ModelResult], T]) -> "list[T]":
        unanswered = self._unanswered(parts)
        return [write(*each) for each in zip(unanswered, await asyncio.gather(*(self.amake(_made(part)) for part in unanswered)))]

    def _offers(self, name: str) -> bool:
        return self._only is None or name in self._only

    def _call(self, call: ModelCall) -> Flow[ModelResult]:
        args = _object_of(call.args)
        if args is None:
            return _failed("INVALID_INPUT", "The arguments must be one JSON object.")
        if not self._offers(call.name):
            return _failed("TOOL_NOT_FOUND", f"There is no tool {call.name}.")
        call_id = call.id if call.id is not None and flow._ID.match(call.id) else None
        made = flow.Call(call.name, args, call_id=call_id, idempotency_key=call.idempotency_key)
        kept = self._waiting.get(_key_of(call.name, args))
        if kept and not isinstance(call.idempotency_key, str):
            made = replace(made, approval_id=kept.pop(0), idempotency_key=None)

        def notify(pending: Pending) -> object:
            if not callable(self._on_pending):
                return None if call.waits else self._on_pending
            return self._on_pending({"tool": call.name, "args": args, "approval": pending["approval"]})

        try:
            result = yield from flow.run(self.client._settings, made, notify, self._approval_timeout)
            if isinstance(made.idempotency_key, str) and flow.refuses_keys(result):
                # A service without a store keeps no answers: the call goes without a key of its own.
                made = replace(made, idempotency_key=None)
                result = yield from flow.run(self.client._settings, made, notify, self._approval_timeout)
        except RefusedError as error:
            return _failed(error.code, error.message)
        except ConnectionError as error:
            ran = "The call may have run: check before you make it again." if error.may_have_run else "The call was not run."
            return _failed("SERVICE_UNREACHABLE", f"The service of this tool did not answer. {ran}")
        except (ValueError, TypeError):
            return _failed("INVALID_INPUT", "The arguments must be one JSON object.")
        return self._result_of(call.name, args, result)

    def _result_of(self, tool: str, args: "dict[str, Any]", result: ToolCallResult) -> ModelResult:
        if result["status"] == "success":
            truncated = {"truncated": True} if result.get("truncated") else {}
            return ModelResult({"untrusted": True, **truncated, "output": result["result"]})
        if result["status"] == "pending":
            approval = result["approval"]
            self._waiting.setdefault(_key_of(tool, args), []).append(approval["id"])
            message = (
                f"This call waits for a person's approval: {approval['id']}. "
                "Make the same call again later, with the same arguments."
            )
            details = {"approval": {"id": approval["id"], "decideBy": approval.get("decideBy")}}
            waiting = _failed("APPROVAL_REQUIRED", message, details=details)
            return replace(waiting, pending={"tool": tool, "args": args, "approval": approval})
        error = result["error"]
        more = {name: error[name] for name in ("details", "retryAfterMs") if name in error}
        return _failed(error["code"], error["message"], **more)

    def _unanswered(self, parts: Iterable[Part]) -> "list[Part]":
        unanswered: list[Part] = []
        left: dict[str, list[str]] = {}
        for part in parts:
            if not part.is_result:
                unanswered.append(part)
                continue
            call = next((each for each in unanswered if each.id == part.id), None)
            if call is None:
                continue
            unanswered.remove(call)
            args = _object_of(call.args)
            if args is not None:
                approval_id = _approval_id_in(part.content)
                left[_key_of(call.name, args)] = [] if approval_id is None else [approval_id]
        # What this program knows is newer than what the conversation says.
        for key, ids in left.items():
            self._waiting.setdefault(key, ids)
        return unanswered


def table_of(item: object) -> Mapping[str, Any]:
    """Returns a message as a table: frameworks have them as tables and as objects of pydantic."""
    if isinstance(item, Mapping):
        return item
    dump = getattr(item, "model_dump", None)
    return cast("dict[str, Any]", dump()) if callable(dump) else {}


def _made(part: Part) -> ModelCall:
    return ModelCall(part.name, part.args, part.id)


def _failed(code: str, message: str, **more: object) -> ModelResult:
    return ModelResult({"error": {"code": code, "message": message, **more}})


def _key_of(tool: str, args: object) -> str:
    return json.dumps([tool, args], sort_keys=True)


def _object_of(args: object) -> "Optional[dict[str, Any]]":
    """Returns the arguments as a table; None when they are not one, or not JSON."""
    try:
        value = json.loads(args if args.strip() else "{}") if isinstance(args, str) else args
    except (ValueError, RecursionError):
        return None
    return dict(value) if isinstance(value, Mapping) else None


def _approval_id_in(content: object) -> Optional[str]:
    """Returns the approval that an earlier result says a call waits for."""
    error = (_object_of(content) or {}).get("error")
    if not isinstance(error, dict) or error.get("code") != "APPROVAL_REQUIRED":
        return None
    details = error.get("details")
    approval = details.get("approval") if isinstance(details, dict) else None
    found = approval.get("id") if isinstance(approval, dict) else None
    return found if isinstance(found, str) and flow._APPROVAL_ID.match(found) else None

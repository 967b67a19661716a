"""The clients: one for programs that wait, one for asyncio."""

from __future__ import annotations

import asyncio
import inspect
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Literal, Optional, Union, overload
from urllib.parse import urlsplit

import httpx

from . import _flow as flow
from ._flow import Ask, Call, ToolCallResult, Flow, NoAnswer, Pause, Reply, Send, Settings, T
from .errors import RefusedError
from .schema import ApprovalRequest, DryRun, ModelFormat, Pending, Refusal, Tool

OnPending = Callable[[Pending], object]
"""Called when a person is asked. When it returns "return", the pending result is returned at once."""

_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


def unwrap(result: ToolCallResult) -> Any:
    """Returns the result of a call that succeeded.

    Raises RefusedError for every other result; its code is APPROVAL_REQUIRED while a person is asked.
    """
    if result["status"] == "success":
        return result["result"]
    raise RefusedError(result)


class _Base:
    """What both clients share: the settings, the request's form, and how an answer is read."""

    def __init__(
        self, url: str, token: object, session: Optional[str], timeout: float, retries: int, allow_insecure: bool
    ) -> None:
        if not callable(token):
            flow.checked_token(token)
        address = flow.checked_url(url, allow_insecure)
        try:
            httpx.URL(address)
        except httpx.InvalidURL as error:
            raise ValueError(f"url: {error}") from None
        self._settings = Settings(address, session, timeout, retries, can_renew_token=callable(token))
        self._token = token

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._settings.url!r})"

    def _options(self) -> "dict[str, Any]":
        """Returns options of httpx. No proxy is between this program and its own machine."""
        host = urlsplit(self._settings.url).hostname or ""
        return {"mounts": {f"all://{host}": None}} if flow.is_loopback(host) else {}

    def _request(self, http: Any, send: Send, token: str) -> httpx.Request:
        headers = {"authorization": f"Bearer {token}", "accept-encoding": "identity", **send.headers}
        if send.body is not None:
            headers["content-type"] = "application/json"
        url = self._settings.url + send.path
        request: httpx.Request = http.build_request(
            send.method, url, content=send.body, headers=headers, timeout=httpx.Timeout(send.timeout)
        )
        return request


class _Reading:
    """Collects an answer's body within a size and a time."""

    def __init__(self, response: httpx.Response, timeout: float) -> None:
        self._response = response
        self._parts: list[bytes] = []
        self._left = flow.ANSWER_BYTES_MAX
        self._end = time.monotonic() + timeout

    def add(self, part: bytes) -> Optional[NoAnswer]:
        self._parts.append(part)
        self._left -= len(part)
        if self._left < 0:
            problem = f"the server answered more than {flow.ANSWER_BYTES_MAX} bytes"
            return NoAnswer(problem, True, is_lasting=True, status=self._response.status_code)
        return NoAnswer("no answer in time", True) if time.monotonic() > self._end else None

    def whole(self) -> Reply:
        headers = self._response.headers
        # Nobody asked for a compressed body, which could become a thousand times larger.
        body = b"" if "content-encoding" in headers else b"".join(self._parts)
        return Reply(self._response.status_code, body, headers.get("retry-after"))


def _lost(error: httpx.TransportError) -> NoAnswer:
    """Leaves out the error's own text, which may show parts of the request."""
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) and len(causes) < 8:
        causes.append(cause)
    is_lasting = any(isinstance(each, ssl.SSLCertVerificationError) for each in causes)
    name = "no answer in time" if isinstance(error, httpx.TimeoutException) else f"no answer ({type(error).__name__})"
    if is_lasting:
        name = "the service's certificate is not accepted"
    return NoAnswer(name, may_have_arrived=not isinstance(error, _NOT_SENT), is_lasting=is_lasting)


class Client(_Base):
    """A client for programs that wait. Use it as a context manager, or call `close`.

    `token` is a token or a function that returns one; the function is called before each request, and once more after a 401. Times are in seconds.
    `http` is your own `httpx.Client`, for proxies, client certificates or a Unix socket; you close it.
    """

    def __init__(
        self,
        url: str,
        token: Union[str, Callable[[], str]],
        *,
        session: Optional[str] = None,
        timeout: float = 60.0,
        retries: int = 4,
        allow_insecure: bool = False,
        http: Optional[httpx.Client] = None,
    ) -> None:
        super().__init__(url, token, session, timeout, retries, allow_insecure)
        self._owns_http = http is None
        self._http = httpx.Client(**self._options()) if http is None else http

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._owns_http:
            self._http.close()

    def call(
        self,
        tool: str,
        args: Optional[Mapping[str, Any]] = None,
        *,
        call_id: Optional[str] = None,
        session: Optional[str] = None,
        reason: Optional[str] = None,
        approval_id: Optional[str] = None,
        idempotency_key: Union[str, Literal[False], None] = None,
        wait_seconds: float = 0,
    ) -> ToolCallResult:
        """Makes one call. Success, pending and refusals are values; see `unwrap`.

        Repeats what the service calls retryable and calls whose answer was lost, under one idempotency key, which is random
        unless you give one. Without a key (`idempotency_key=False`), a call uses the approval that the same call was given
        before. Raises ConnectionError and ProtocolError.
        """
        made = Call(tool, args, call_id, session, reason, approval_id, idempotency_key, wait_seconds)
        return self._do(flow.call(self._settings, made))

    def run(
        self,
        tool: str,
        args: Optional[Mapping[str, Any]] = None,
        *,
        call_id: Optional[str] = None,
        session: Optional[str] = None,
        reason: Optional[str] = None,
        approval_id: Optional[str] = None,
        idempotency_key: Union[str, Literal[False], None] = None,
        wait_seconds: float = 0,
        on_pending: Optional[OnPending] = None,
        approval_timeout: Optional[float] = None,
    ) -> ToolCallResult:
        """Makes one call; when a person is asked, waits for the decision and makes the call again with the approval.

        Returns the pending result when nobody has decided within `approval_timeout` seconds.
        """
        made = Call(tool, args, call_id, session, reason, approval_id, idempotency_key, wait_seconds)
        return self._do(flow.run(self._settings, made, on_pending, approval_timeout))

    def dry_run(
        self, tool: str, args: Optional[Mapping[str, Any]] = None, *, session: Optional[str] = None
    ) -> Union[DryRun, Refusal]:
        """Returns what would happen to a call. Runs nothing and asks nobody."""
        return self._do(flow.dry_run(self._settings, Call(tool, args, session=session)))

    @overload
    def tools(self, format: Literal["json"] = "json", *, strict: bool = False) -> "list[Tool]": ...
    @overload
    def tools(self, format: ModelFormat, *, strict: bool = False) -> "list[dict[str, Any]]": ...
    def tools(self, format: str = "json", *, strict: bool = False) -> "list[Any]":
        """Returns the tools that this caller may use, in the form that a model's API expects. With `strict`, `openai`,
        `openai-responses` and `anthropic` use the API's strict mode for the tools whose schemas it can express: the model then sends
        null for optional arguments, which the service takes as absent. Waits while the service restarts: up to 30 s, unless `retries`
        is 0."""
        return self._do(flow.tools(self._settings, format, strict))

    def approval(self, approval_id: str, *, wait_seconds: float = 0) -> ApprovalRequest:
        """Returns an approval request; the service waits up to `wait_seconds` (55 at most) for a decision."""
        return self._do(flow.approval(self._settings, approval_id, wait_seconds))

    def wait_for_approval(self, approval_id: str, *, timeout: Optional[float] = None) -> ApprovalRequest:
        """Waits until an approval request is no longer pending, or the time is over: look at its `state`."""
        return self._do(flow.wait_for_approval(self._settings, approval_id, timeout))

    def cancel_approval(self, approval_id: str) -> None:
        """Cancels an approval request of this caller."""
        self._do(flow.cancel_approval(self._settings, approval_id))

    def _do(self, steps: Flow[T]) -> T:
        done: object = None
        while True:
            try:
                step = steps.send(done)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            done = None
            if isinstance(step, Send):
                done = self._send(step)
            elif isinstance(step, Pause):
                time.sleep(step.seconds)
            else:
                done = step.on_pending(step.pending)

    def _send(self, send: Send) -> Union[Reply, NoAnswer]:
        token = flow.checked_token(self._token() if callable(self._token) else self._token)
        try:
            response = self._http.send(
                self._request(self._http, send, token), stream=True, auth=None, follow_redirects=False
            )
            try:
                reading = _Reading(response, send.timeout)
                parts: Iterator[bytes] = response.iter_raw()
                for part in parts:
                    if problem := reading.add(part):
                        return problem
                return reading.whole()
            finally:
                response.close()
        except httpx.TransportError as error:
            return _lost(error)


class AsyncClient(_Base):
    """A client for asyncio: the same as `Client`, with methods to await. `token` and `on_pending` may be asynchronous."""

    def __init__(
        self,
        url: str,
        token: Union[str, Callable[[], str], Callable[[], Awaitable[str]]],
        *,
        session: Optional[str] = None,
        timeout: float = 60.0,
        retries: int = 4,
        allow_insecure: bool = False,
        http: Optional[httpx.AsyncClient] = None,
    ) -> None:
        super().__init__(url, token, session, timeout, retries, allow_insecure)
        self._owns_http = http is None
        self._http = httpx.AsyncClient(**self._options()) if http is None else http

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        if self._owns_http:
            await self._http.aclose()

    async def call(
        self,
        tool: str,
        args: Optional[Mapping[str, Any]] = None,
        *,
        call_id: Optional[str] = None,
        session: Optional[str] = None,
        reason: Optional[str] = None,
        approval_id: Optional[str] = None,
        idempotency_key: Union[str, Literal[False], None] = None,
        wait_seconds: float = 0,
    ) -> ToolCallResult:
        """As `Client.call`."""
        made = Call(tool, args, call_id, session, reason, approval_id, idempotency_key, wait_seconds)
        return await self._do(flow.call(self._settings, made))

    async def run(
        self,
        tool: str,
        args: Optional[Mapping[str, Any]] = None,
        *,
        call_id: Optional[str] = None,
        session: Optional[str] = None,
        reason: Optional[str] = None,
        approval_id: Optional[str] = None,
        idempotency_key: Union[str, Literal[False], None] = None,
        wait_seconds: float = 0,
        on_pending: Optional[OnPending] = None,
        approval_timeout: Optional[float] = None,
    ) -> ToolCallResult:
        """As `Client.run`."""
        made = Call(tool, args, call_id, session, reason, approval_id, idempotency_key, wait_seconds)
        return await self._do(flow.run(self._settings, made, on_pending, approval_timeout))

    async def dry_run(
        self, tool: str, args: Optional[Mapping[str, Any]] = None, *, session: Optional[str] = None
    ) -> Union[DryRun, Refusal]:
        """As `Client.dry_run`."""
        return await self._do(flow.dry_run(self._settings, Call(tool, args, session=session)))

    @overload
    async def tools(self, format: Literal["json"] = "json", *, strict: bool = False) -> "list[Tool]": ...
    @overload
    async def tools(self, format: ModelFormat, *, strict: bool = False) -> "list[dict[str, Any]]": ...
    async def tools(self, format: str = "json", *, strict: bool = False) -> "list[Any]":
        """As `Client.tools`."""
        return await self._do(flow.tools(self._settings, format, strict))

    async def approval(self, approval_id: str, *, wait_seconds: float = 0) -> ApprovalRequest:
        """As `Client.approval`."""
        return await self._do(flow.approval(self._settings, approval_id, wait_seconds))

    async def wait_for_approval(self, approval_id: str, *, timeout: Optional[float] = None) -> ApprovalRequest:
        """As `Client.wait_for_approval`."""
        return await self._do(flow.wait_for_approval(self._settings, approval_id, timeout))

    async def cancel_approval(self, approval_id: str) -> None:
        """As `Client.cancel_approval`."""
        await self._do(flow.cancel_approval(self._settings, approval_id))

    async def _do(self, steps: Flow[T]) -> T:
        done: object = None
        while True:
            try:
                step = steps.send(done)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            done = None
            if isinstance(step, Send):
                done = await self._send(step)
            elif isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
            else:
                done = await _awaited(step.on_pending(step.pending))

    async def _send(self, send: Send) -> Union[Reply, NoAnswer]:
        token = flow.checked_token(await _awaited(self._token() if callable(self._token) else self._token))
        try:
            response = await self._http.send(
                self._request(self._http, send, token), stream=True, auth=None, follow_redirects=False
            )
            try:
                reading = _Reading(response, send.timeout)
                parts: AsyncIterator[bytes] = response.aiter_raw()
                async for part in parts:
                    if problem := reading.add(part):
                        return problem
                return reading.whole()
            finally:
                await response.aclose()
        except httpx.TransportError as error:
            return _lost(error)


async def _awaited(value: object) -> object:
    return await value if inspect.isawaitable(value) else value

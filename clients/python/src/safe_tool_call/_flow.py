"""What the clients do, without input or output.

Each operation is a generator that yields steps (`Send`, `Pause`, `Ask`) and receives their results. `Client` and `AsyncClient`
carry out the steps, and differ in nothing else.
"""

from __future__ import annotations

import json
import random
import re
import time
import uuid
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from math import ceil, inf
from typing import Any, Literal, Optional, TypeVar, Union, cast
from urllib.parse import quote, urlsplit

from .errors import ConnectionError, ProtocolError, RefusedError
from .schema import IDEMPOTENCY_KEY, STAGES_BEFORE_KEY, WAIT_SECONDS_MAX, ApprovalRequest, DryRun, Pending, Refusal, Success

T = TypeVar("T")
ToolCallResult = Union[Success, Pending, Refusal]
Body = dict[str, Any]

BACKOFF_SECONDS = 0.25
BACKOFF_SECONDS_MAX = 8.0
POLL_SECONDS = WAIT_SECONDS_MAX - 5
POLL_SECONDS_FREE = 1.0
"""A long poll that ends earlier was not held: the service has too many waiting requests."""
OUTAGE_SECONDS_MAX = 300.0
"""While an approval is awaited, the service may be unavailable for so long."""
TOOLS_OUTAGE_SECONDS_MAX = 30.0
"""Shorter: a program that starts reads its tools first, and must say soon that its URL is wrong."""
ANSWER_BYTES_MAX = 67_108_864
APPROVALS_MAX = 10
"""Approval requests that one run waits for: a service that always asks once more must not hold it forever."""

_ID = re.compile(r"[\x21-\x7e]{1,128}\Z")
_APPROVAL_ID = re.compile(r"[A-Za-z0-9_-]{1,128}\Z")
_TOKEN = re.compile(r"[\x21-\x7e]+\Z")
_PASSING = frozenset({408, 429, 500, 502, 503, 504})
"""Statuses with which a proxy says that the service cannot answer now."""


@dataclass(frozen=True)
class Send:
    """Send a request. Its result is a `Reply` or `NoAnswer`."""

    method: str
    path: str
    timeout: float
    body: Optional[bytes] = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_repeatable: bool = True
    """Whether the request may be sent again when its answer was lost."""
    changes: bool = False
    """Whether the request can change something."""


@dataclass(frozen=True)
class Pause:
    """Wait for a number of seconds."""

    seconds: float


@dataclass(frozen=True)
class Ask:
    """Call the caller's `on_pending`. Its result is what this returned."""

    on_pending: Callable[[Pending], object]
    pending: Pending


@dataclass(frozen=True)
class Reply:
    status: int
    body: bytes
    retry_after: Optional[str] = None


@dataclass(frozen=True)
class NoAnswer:
    problem: str
    may_have_arrived: bool
    is_lasting: bool = False
    """Whether the next attempt would fail in the same way, as with a certificate that is not accepted."""
    status: Optional[int] = None
    retry_after: float = 0.0
    """Seconds that the answer asks to wait."""


Flow = Generator[Union[Send, Pause, Ask], Any, T]


@dataclass
class Settings:
    """How a client behaves. The token is not among these, so that no representation shows it."""

    url: str
    session: Optional[str]
    timeout: float
    retries: int
    can_renew_token: bool
    clock: Callable[[], float] = time.monotonic
    random: Callable[[], float] = random.random
    takes_keys: bool = True
    """False once the service has said that it keeps no answers: then a call is never sent twice."""


@dataclass(frozen=True)
class Call:
    tool: str
    args: Optional[Mapping[str, Any]] = None
    call_id: Optional[str] = None
    session: Optional[str] = None
    reason: Optional[str] = None
    approval_id: Optional[str] = None
    idempotency_key: Union[str, Literal[False], None] = None
    """False: no key, so that the call uses an approval that the same call was given before."""
    wait_seconds: float = 0
    dry_run: bool = False


def checked_url(url: str, allow_insecure: bool) -> str:
    """Returns the service's address without a slash at the end.

    Raises ValueError for what is no such address, or would send the token in plain text to another machine.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("url: expected the URL of a service, such as https://tools.example")
    if "@" in parts.netloc:
        raise ValueError("url: must not contain a user name or a password")
    if parts.query or parts.fragment:
        raise ValueError("url: must not contain a query or a fragment")
    if parts.scheme == "http" and not allow_insecure and not is_loopback(parts.hostname):
        raise ValueError(
            "url: http: would send the token in plain text to another machine: use https:, or set allow_insecure in a network "
            "that you trust"
        )
    return url.rstrip("/")


def is_loopback(host: str) -> bool:
    return host == "::1" or re.fullmatch(r"(.+\.)?localhost|127(\.\d{1,3}){3}", host) is not None


def checked_token(token: object) -> str:
    if isinstance(token, str) and _TOKEN.match(token):
        return token
    raise ValueError('the token must be one word of visible ASCII characters, without "Bearer"')


def call(settings: Settings, made: Call) -> Flow[ToolCallResult]:
    """Makes one call. Repeats it under one idempotency key while this helps and is safe."""
    key = made.idempotency_key or None
    if made.idempotency_key is None and settings.takes_keys and not made.dry_run:
        key = _random_key()
    body = yield from exchange(settings, _request(settings, made, key))
    if key is not None and made.idempotency_key is None and refuses_keys(body):
        settings.takes_keys = False
        body = yield from exchange(settings, _request(settings, made, None))
    return _result_of(settings, body)


def run(
    settings: Settings, made: Call, on_pending: Optional[Callable[[Pending], object]], approval_timeout: Optional[float]
) -> Flow[ToolCallResult]:
    """Makes a call; when a person is asked, waits for the decision and makes the same call again with the approval."""
    end = settings.clock() + (inf if approval_timeout is None else approval_timeout)
    first = made
    if made.idempotency_key is None and settings.takes_keys:
        first = replace(made, idempotency_key=_random_key())
    result = yield from call(settings, first)
    if first is not made and refuses_keys(result):
        settings.takes_keys = False
        first = made
        result = yield from call(settings, first)
    rounds = 0
    while result["status"] == "pending" and rounds < APPROVALS_MAX:
        rounds += 1
        pending = result
        if on_pending is not None and (yield Ask(on_pending, pending)) == "return":
            return pending
        approval_id = pending["approval"]["id"]
        try:
            approval = yield from wait_for_approval(settings, approval_id, end - settings.clock())
            if approval["state"] == "pending":
                return pending
        except RefusedError:
            # The call gets the same refusal, as its result.
            rounds = APPROVALS_MAX
        # Also after a denial: the service's refusal has the approver's reason.
        result = yield from call(settings, replace(first, approval_id=approval_id, wait_seconds=0))
    return result


def dry_run(settings: Settings, made: Call) -> Flow[Union[DryRun, Refusal]]:
    return cast(Union[DryRun, Refusal], (yield from call(settings, replace(made, dry_run=True))))


def tools(settings: Settings, format: str, strict: bool) -> Flow["list[Any]"]:
    """Returns the caller's tools, also while the service restarts, unless the client repeats nothing."""
    path = f"/tools?format={quote(format, safe='')}" + ("&strict=true" if strict else "")
    seconds_max = TOOLS_OUTAGE_SECONDS_MAX if settings.retries > 0 else 0
    body = yield from _through_outage(settings, lambda: _read(settings, Send("GET", path, settings.timeout)), seconds_max)
    return cast("list[Any]", _member(settings, body, "tools", list))


def approval(settings: Settings, approval_id: str, wait_seconds: float = 0) -> Flow[ApprovalRequest]:
    query = f"?wait={ceil(wait_seconds)}" if wait_seconds > 0 else ""
    path = _approval_path(approval_id) + query
    body = yield from _read(settings, Send("GET", path, settings.timeout + max(0, wait_seconds)))
    found = _member(settings, body, "approval", dict)
    _member(settings, found, "state", str)
    return cast(ApprovalRequest, found)


def wait_for_approval(settings: Settings, approval_id: str, timeout: Optional[float]) -> Flow[ApprovalRequest]:
    """Waits until the approval request is decided, also while the service restarts, or until the time is over."""
    clock = settings.clock
    end = clock() + (inf if timeout is None else timeout)

    def poll() -> Flow[ApprovalRequest]:
        return approval(settings, approval_id, max(0, min(POLL_SECONDS, end - clock())))

    while True:
        begun = clock()
        found = yield from _through_outage(settings, poll, OUTAGE_SECONDS_MAX, end)
        if found["state"] != "pending" or clock() >= end:
            return found
        yield from _pace(settings, begun)


def _through_outage(settings: Settings, work: Callable[[], Flow[T]], seconds_max: float, end: float = inf) -> Flow[T]:
    """Repeats the work while the service is unavailable: at most for `seconds_max`, and not after `end`."""
    clock = settings.clock
    end = min(end, clock() + seconds_max)
    while True:
        begun = clock()
        try:
            return (yield from work())
        except (ConnectionError, RefusedError) as error:
            if not _is_passing(error, seconds_max) or clock() >= end:
                raise
        yield from _pace(settings, begun)


def _pace(settings: Settings, begun: float) -> Flow[None]:
    """Waits until the next request may be sent: the last one, sent at `begun`, may have been answered at once."""
    free = POLL_SECONDS_FREE - (settings.clock() - begun)
    if free > 0:
        yield Pause(free + settings.random() * POLL_SECONDS_FREE)


def cancel_approval(settings: Settings, approval_id: str) -> Flow[None]:
    lost: list[NoAnswer] = []
    body = yield from exchange(settings, Send("DELETE", _approval_path(approval_id), settings.timeout, changes=True), lost)
    # An earlier attempt, whose answer was lost, may have cancelled it.
    if is_refusal(body) and not (lost and body["error"]["code"] == "APPROVAL_CANCELLED"):
        raise RefusedError(cast(Refusal, body))


def exchange(settings: Settings, send: Send, lost: Optional["list[NoAnswer]"] = None) -> Flow[Body]:
    """Sends a request, and repeats it while the answer says that this helps or, for repeatable requests, got lost."""
    renews = settings.can_renew_token
    losses = [] if lost is None else lost
    progress_end: Optional[float] = None
    attempt = 0
    while True:
        answer: Union[Reply, NoAnswer] = yield send
        body = _body_of(answer) if isinstance(answer, Reply) else answer
        is_last = attempt >= settings.retries
        if isinstance(body, NoAnswer):
            if body.may_have_arrived:
                losses.append(body)
            is_over = is_last or body.is_lasting or body.retry_after > settings.timeout
            if is_over or (losses and not send.is_repeatable):
                kind = ProtocolError if body.status is not None else ConnectionError
                failure = kind(
                    f"{settings.url}: {body.problem}", may_have_run=bool(losses) and send.changes, status=body.status
                )
                failure._is_lasting = body.is_lasting
                raise failure
            pause = body.retry_after + _backoff(settings, attempt)
        elif cast(Reply, answer).status == 401 and renews:
            renews = False
            continue
        else:
            error = body["error"] if is_refusal(body) else None
            if error is None or error["retryable"] is not True:
                return _known(settings, body, send, losses)
            hint = _seconds_until_retry(error, cast(Reply, answer))
            if hint > settings.timeout:
                return _known(settings, body, send, losses)
            if error["code"] == "CALL_IN_PROGRESS":
                # The first attempt, whose answer was lost, is still running.
                progress_end = settings.clock() + settings.timeout if progress_end is None else progress_end
                if settings.clock() + hint > progress_end:
                    return _known(settings, body, send, losses)
                attempt -= 1
            elif is_last:
                return _known(settings, body, send, losses)
            pause = hint + _backoff(settings, attempt)
        yield Pause(pause)
        attempt += 1


def _known(settings: Settings, body: Body, send: Send, losses: "list[NoAnswer]") -> Body:
    """Raises ConnectionError for a refusal that would hide that the call may have run."""
    if not losses or not send.changes or not is_refusal(body):
        return body
    error = body["error"]
    if error["stage"] not in STAGES_BEFORE_KEY or error["code"] == "CALL_IN_PROGRESS":
        return body
    problem = f"the answer was lost, and the request could not be repeated: {error['code']}"
    raise ConnectionError(f"{settings.url}: {problem}", may_have_run=True)


def to_json(value: object) -> str:
    """Raises ValueError or TypeError for what JSON cannot say."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def is_refusal(body: object) -> bool:
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(body, dict) or body.get("status") not in ("denied", "error") or not isinstance(error, dict):
        return False
    has_texts = all(isinstance(error.get(name), str) for name in ("code", "stage", "message"))
    return has_texts and isinstance(error.get("retryable"), bool)


def _request(settings: Settings, made: Call, key: Optional[str]) -> Send:
    body: Body = {"tool": made.tool, "args": {} if made.args is None else made.args}
    session = made.session or settings.session
    if session is not None:
        body["session"] = _checked(_ID, "session", session)
    if made.call_id is not None:
        body["callId"] = _checked(_ID, "call_id", made.call_id)
    if made.reason is not None:
        body["reason"] = made.reason
    if made.approval_id is not None:
        body["approval"] = {"id": _checked(_ID, "approval_id", made.approval_id)}
    if made.dry_run:
        body["dryRun"] = True
    headers: dict[str, str] = {}
    if made.wait_seconds > 0:
        headers["prefer"] = f"wait={ceil(made.wait_seconds)}"
    if key is not None:
        headers["idempotency-key"] = _checked(IDEMPOTENCY_KEY, "idempotency_key", key)
    timeout = settings.timeout + max(0, made.wait_seconds)
    return Send("POST", "/call", timeout, to_json(body).encode(), headers, key is not None or made.dry_run, not made.dry_run)


def _random_key() -> str:
    return uuid.uuid4().hex


def refuses_keys(answer: object) -> bool:
    """Returns whether a service without a store says that it keeps no answers."""
    if not is_refusal(answer):
        return False
    error = cast(Refusal, answer)["error"]
    details: object = error.get("details")
    is_about_keys = isinstance(details, dict) and details.get("unsupported") == "Idempotency-Key"
    return error["code"] == "MALFORMED_REQUEST" and is_about_keys


def _checked(pattern: "re.Pattern[str]", name: str, value: str) -> str:
    if pattern.match(value):
        return value
    raise ValueError(f"{name}: expected visible ASCII characters without spaces, and not so many")


def _approval_path(approval_id: str) -> str:
    if not _APPROVAL_ID.match(approval_id):
        raise ValueError("approval_id: not the id of an approval request")
    return f"/approvals/{approval_id}"


def _read(settings: Settings, send: Send) -> Flow[Body]:
    body = yield from exchange(settings, send)
    if is_refusal(body):
        raise RefusedError(cast(Refusal, body))
    return body


def _result_of(settings: Settings, body: Body) -> ToolCallResult:
    status, asked = body.get("status"), body.get("approval")
    is_result = (status == "success" and "result" in body) or (status == "dryRun" and "verdict" in body)
    is_pending = status == "pending" and isinstance(asked, dict) and _has_texts(asked, "id", "message")
    is_pending = is_pending and _APPROVAL_ID.match(cast(Body, asked)["id"]) is not None
    if is_refusal(body) or (isinstance(body.get("traceId"), str) and (is_result or is_pending)):
        return cast(ToolCallResult, body)
    raise ProtocolError(f"{settings.url}: the answer is no result of a call", may_have_run=True, status=200)


def _has_texts(table: Body, *names: str) -> bool:
    return all(isinstance(table.get(name), str) for name in names)


def _member(settings: Settings, body: Body, name: str, kind: type) -> Any:
    if isinstance(body.get(name), kind):
        return body[name]
    raise ProtocolError(f"{settings.url}: the answer has no {name}", may_have_run=False, status=200)


def _is_passing(error: Union[ConnectionError, RefusedError], seconds_max: float) -> bool:
    """Returns whether the service may answer within the time."""
    if isinstance(error, RefusedError):
        hint = error.retry_after_ms
        return error.retryable and not (isinstance(hint, (int, float)) and hint > seconds_max * 1000)
    return not error._is_lasting


def _body_of(reply: Reply) -> Union[Body, NoAnswer]:
    """Returns the service's JSON, or why the answer is not the service's."""
    status = reply.status

    def foreign(what: str) -> NoAnswer:
        is_lasting = status >= 300 and status not in _PASSING
        return NoAnswer(f"the server {what} (HTTP {status})", True, is_lasting, status, _seconds_until_retry({}, reply))

    if 300 <= status < 400:
        return foreign("redirects, which the client does not follow: use the service's own URL")
    try:
        body = json.loads(reply.body, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return foreign("answered something other than JSON of the service")
    if not isinstance(body, dict):
        return foreign("answered something other than JSON of the service")
    if status >= 400 and not is_refusal(body):
        return foreign("answered something other than a refusal of the service")
    return foreign("answered a refusal with the status of a success") if status < 300 and is_refusal(body) else body


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _seconds_until_retry(error: Mapping[str, Any], reply: Reply) -> float:
    hint = error.get("retryAfterMs")
    if isinstance(hint, (int, float)) and hint >= 0:
        # A larger number may not fit into a float.
        return float(min(hint, 10**15)) / 1000
    header = reply.retry_after or ""
    if re.fullmatch(r"[0-9]{1,9}", header):
        return float(header)
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return 0.0


def _backoff(settings: Settings, attempt: int) -> float:
    """Full jitter: a random part of a time that doubles."""
    return settings.random() * float(min(BACKOFF_SECONDS_MAX, BACKOFF_SECONDS * 2 ** min(max(attempt, 0), 10)))

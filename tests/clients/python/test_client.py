"""The clients against the real service."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Union

import httpx
import pytest
from conftest import Control
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from safe_tool_call import _flow
from safe_tool_call import AsyncClient, Client, ConnectionError, ProtocolError, RefusedError, SafeToolCallError, unwrap

SEND = {"to": "ada", "note": "hello"}


def test_a_call_returns_the_services_answer_and_unwrap_its_result(client: Client) -> None:
    result = client.call("read_note", {"title": "a"})
    assert result["status"] == "success" and result["untrusted"] is True
    assert unwrap(result) == {"done": "read a"}


def test_a_refusal_is_a_value_and_unwrap_raises_it(client: Client) -> None:
    result = client.call("read_note", {"title": 7})
    assert result["status"] == "denied" and result["error"]["code"] == "INVALID_INPUT"
    with pytest.raises(RefusedError) as caught:
        unwrap(result)
    assert caught.value.stage == "VALIDATION" and caught.value.details["issues"][0]["path"] == "title"


def test_a_retryable_refusal_is_repeated_until_it_succeeds(client: Client, control: Control) -> None:
    control("failures", count=2)
    assert unwrap(client.call("flaky_note", {"title": "later"})) == {"done": "read later"}


def test_a_retryable_refusal_is_returned_when_the_retries_are_over(control: Control) -> None:
    control("failures", count=9)
    with Client(control.url, control.token(), retries=1) as client:
        result = client.call("flaky_note", {"title": "never"})
    control("failures", count=0)
    assert result["status"] == "error" and result["error"]["code"] == "TARGET_UNAVAILABLE" and control.deeds("read never") == 0


def test_run_waits_for_the_approver_and_makes_the_call_once(client: Client, control: Control) -> None:
    result = client.run("send_note", {**SEND, "to": "bob"}, on_pending=lambda pending: control.approve(pending["approval"]["id"]))
    assert unwrap(result) == {"done": "sent to bob"} and control.deeds("sent to bob") == 1


def test_run_returns_a_denial_with_the_approvers_reason(client: Client, control: Control) -> None:
    result = client.run("send_note", {**SEND, "to": "eve"}, on_pending=lambda pending: control.deny(pending["approval"]["id"]))
    assert result["status"] == "denied" and result["error"]["code"] == "APPROVAL_DENIED"
    assert "not today" in str(result["error"]) and control.deeds("sent to eve") == 0


def test_run_returns_pending_when_the_caller_wants_it_and_when_the_time_is_over(client: Client) -> None:
    assert client.run("send_note", {**SEND, "to": "x"}, on_pending=lambda _: "return")["status"] == "pending"
    result = client.run("send_note", {**SEND, "to": "x"}, approval_timeout=0.1)
    assert result["status"] == "pending"
    with pytest.raises(RefusedError) as caught:
        unwrap(result)
    assert caught.value.code == "APPROVAL_REQUIRED"


def test_a_cancelled_request_ends_the_wait_and_the_call(client: Client) -> None:
    asked: list[str] = []

    def cancel(pending: Any) -> None:
        asked.append(pending["approval"]["id"])
        client.cancel_approval(asked[0])

    result = client.run("send_note", {**SEND, "to": "nobody"}, on_pending=cancel)
    assert result["status"] == "denied" and result["error"]["code"] == "APPROVAL_CANCELLED"
    assert client.approval(asked[0])["state"] == "cancelled"
    with pytest.raises(RefusedError):
        client.cancel_approval(asked[0])


def test_a_wait_survives_a_restart_of_the_service(control: Control) -> None:
    with Client(control.url, control.token()) as client:

        def restart(pending: Any) -> None:
            def later() -> None:
                control("restart")
                control.approve(pending["approval"]["id"])

            threading.Thread(target=later).start()

        assert unwrap(client.run("send_note", {**SEND, "to": "late"}, on_pending=restart)) == {"done": "sent to late"}
    assert control.deeds("sent to late") == 1


def test_one_key_is_one_run(client: Client, control: Control) -> None:
    for _ in range(2):
        assert unwrap(client.call("save_note", {"title": "once"}, idempotency_key="one")) == {"done": "saved once"}
    assert control.deeds("saved once") == 1
    conflict = client.call("save_note", {"title": "other"}, idempotency_key="one")
    assert conflict["status"] == "denied" and conflict["error"]["code"] == "IDEMPOTENCY_CONFLICT"


def test_a_dry_run_runs_nothing(client: Client, control: Control) -> None:
    result = client.dry_run("send_note", {**SEND, "to": "dry"})
    assert result["status"] == "dryRun" and result["verdict"] == "ask" and control.deeds("sent to dry") == 0


def test_tools_are_the_callers_own(client: Client) -> None:
    assert sorted(tool["name"] for tool in client.tools()) == ["flaky_note", "read_note", "save_note", "send_note"]
    assert {tool["function"]["name"] for tool in client.tools("openai")} == {tool["name"] for tool in client.tools()}


def test_the_list_of_tools_is_awaited_while_nothing_listens(control: Control) -> None:
    child = json.loads(control("child"))
    control("kill")
    asked: list[int] = []

    def token() -> str:
        """Is asked before each request: the service is back after more failures than the retries of one request."""
        asked.append(1)
        if len(asked) == 4:
            child.update(json.loads(control("child")))
        return str(child["token"])

    with Client(child["url"], token, retries=1) as client:
        assert "read_note" in [tool["name"] for tool in client.tools()]
    assert len(asked) == 4
    control("kill")


def test_a_token_function_is_asked_again_once_after_a_401(control: Control) -> None:
    tokens = iter(["expired", control.token(), "never"])
    with Client(control.url, lambda: next(tokens)) as client:
        assert unwrap(client.call("read_note", {"title": "fresh"})) == {"done": "read fresh"}
    asked: list[int] = []
    with Client(control.url, lambda: str(asked.append(1) or "wrong")) as client:  # type: ignore[func-returns-value]
        refused = client.call("read_note", {"title": "a"})
    assert refused["status"] == "denied" and refused["error"]["code"] == "UNAUTHENTICATED" and len(asked) == 2


def test_a_service_without_a_store_is_called_without_keys(control: Control) -> None:
    with Client(str(control("storeless")), control.token()) as client:
        for _ in range(2):
            assert unwrap(client.call("read_note", {"title": "b"})) == {"done": "read b"}
            assert unwrap(client.run("read_note", {"title": "b"})) == {"done": "read b"}


def test_the_asynchronous_client_does_the_same(control: Control) -> None:
    async def program() -> None:
        async def token() -> str:
            return control.token()

        async def approve(pending: Any) -> None:
            await asyncio.to_thread(control.approve, pending["approval"]["id"])

        async with AsyncClient(control.url, token) as client:
            control("failures", count=1)
            assert unwrap(await client.call("flaky_note", {"title": "soon"})) == {"done": "read soon"}
            assert unwrap(await client.run("send_note", {**SEND, "to": "zoe"}, on_pending=approve)) == {"done": "sent to zoe"}
            assert len(await client.tools()) == 4
            pending = await client.run("send_note", {**SEND, "to": "mo"}, on_pending=lambda _: "return")
            assert pending["status"] == "pending"
            approval_id = pending["approval"]["id"]
            waiting = asyncio.create_task(client.wait_for_approval(approval_id))
            await client.cancel_approval(approval_id)
            assert (await waiting)["state"] == "cancelled"
            assert (await client.approval(approval_id))["state"] == "cancelled"
            assert (await client.dry_run("read_note", {"title": "a"}))["status"] == "dryRun"

    asyncio.run(program())
    assert control.deeds("sent to zoe") == 1


def test_an_asynchronous_wait_can_be_cancelled(control: Control) -> None:
    async def program() -> None:
        async with AsyncClient(control.url, control.token()) as client:
            await asyncio.wait_for(client.run("send_note", {**SEND, "to": "slow"}), timeout=0.5)

    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(program())


# Servers that are not the service, or connections that break on the way to it.


class Impostor(ThreadingHTTPServer):
    """Answers with `answers` and then with `answer`, or loses the answers to the first `losses` requests that it forwards."""

    answer = b""
    answers: "list[bytes]" = []
    received = 0
    losses = 0
    target = ""
    forwarded = 0
    keys: "list[str | None]" = []

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client may close its connection."""


class Handler(BaseHTTPRequestHandler):
    server: Impostor

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"] or 0))
        server = self.server
        if server.target == "":
            server.received += 1
            self.wfile.write(server.answers.pop(0) if server.answers else server.answer)
        else:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "content-length")}
            answer = httpx.post(server.target + self.path, content=body, headers=headers)
            server.forwarded += 1
            server.keys.append(self.headers["idempotency-key"])
            if server.forwarded > server.losses:
                head = f"HTTP/1.1 {answer.status_code} X\r\nconnection: close\r\ncontent-length: {len(answer.content)}\r\n\r\n"
                self.wfile.write(head.encode() + answer.content)
        self.close_connection = True

    do_GET = do_DELETE = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def impostor() -> Iterator[Impostor]:
    with Impostor(("127.0.0.1", 0), Handler) as server:
        server.keys, server.answers = [], []
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def _client(server: Impostor, token: str = "secret-token", **options: Any) -> Client:
    return Client(f"http://127.0.0.1:{server.server_port}", token, **options)


def test_a_call_whose_answer_was_lost_is_repeated_under_its_key_and_runs_once(impostor: Impostor, control: Control) -> None:
    impostor.target, impostor.losses = control.url, 2
    with _client(impostor, control.token()) as client:
        assert unwrap(client.call("save_note", {"title": "lost"})) == {"done": "saved lost"}
        assert unwrap(client.call("save_note", {"title": "next"})) == {"done": "saved next"}
    assert control.deeds("saved lost") == 1
    assert len(set(impostor.keys[:3])) == 1 and impostor.keys[3] != impostor.keys[0]


def test_a_call_without_a_key_is_not_repeated_after_its_answer_was_lost(impostor: Impostor, control: Control) -> None:
    impostor.target = str(control("storeless"))
    with _client(impostor, control.token()) as client:
        unwrap(client.call("read_note", {"title": "first"}))
        impostor.losses = impostor.forwarded + 1
        with pytest.raises(ConnectionError) as caught:
            client.call("read_note", {"title": "only once"})
    assert caught.value.may_have_run and control.deeds("read only once") == 1


def test_a_call_that_a_kill_interrupts_never_runs_twice(control: Control) -> None:
    child = json.loads(control("child"))
    answers: list[Any] = []
    with Client(child["url"], lambda: str(child["token"]), retries=20) as client:
        args = {"title": "interrupted", "waitMs": 10_000}
        call = threading.Thread(target=lambda: answers.append(client.call("save_note", args)))
        call.start()
        while "saved interrupted" not in control("childDeeds"):
            time.sleep(0.05)
        control("kill")
        child = json.loads(control("child"))
        call.join()
    assert answers[0]["status"] == "error" and answers[0]["error"]["code"] == "OUTCOME_UNKNOWN"
    assert control("childDeeds").count("saved interrupted") == 1


def _json(body: object, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\n\r\n{json.dumps(body)}".encode()


def _refusal(stage: str, code: str, **more: Any) -> bytes:
    error = {"code": code, "stage": stage, "message": "no", "retryable": False, **more}
    return _json({"status": "denied", "error": error, "traceId": "t"}, "429 X")


PENDING = {"status": "pending", "approval": {"id": "ap_1", "message": "Wait"}, "traceId": "t"}


@pytest.mark.parametrize(
    "refusal",
    [
        _refusal("LIMIT", "RATE_LIMITED"),
        _refusal("AUTH", "INVALID_TOKEN"),
        _refusal("REQUEST", "MALFORMED_REQUEST", details={"unsupported": "Idempotency-Key"}),
    ],
)
def test_a_refusal_after_a_lost_answer_does_not_hide_that_the_call_may_have_run(impostor: Impostor, refusal: bytes) -> None:
    impostor.answers, impostor.answer = [b"", refusal], _json({"status": "success", "result": 1, "traceId": "t"})
    with _client(impostor) as client:
        with pytest.raises(ConnectionError) as caught:
            client.call("save_note")
        assert caught.value.may_have_run and impostor.received == 2
        impostor.answers = [b"", _refusal("EXECUTION", "TARGET_ERROR")]
        assert client.call("save_note")["status"] == "denied"


def test_a_limit_is_waited_for_and_a_halt_is_not(impostor: Impostor) -> None:
    success = _json({"status": "success", "result": 1, "traceId": "t"})
    impostor.answers = [_refusal("LIMIT", "RATE_LIMITED", retryable=True, retryAfterMs=1), success]
    with _client(impostor) as client:
        assert client.call("read_note")["status"] == "success" and impostor.received == 2
        impostor.answers = [_refusal("PERMISSION", "HALTED")]
        halted = client.run("read_note")
    assert halted["status"] == "denied" and halted["error"]["code"] == "HALTED" and impostor.received == 3


def test_an_approval_that_never_ends_ends_the_run(impostor: Impostor) -> None:
    approved = _json({"approval": {"id": "ap_1", "state": "approved"}})
    impostor.answers = [_json(PENDING), approved] * 50
    with _client(impostor) as client:
        assert client.run("save_note")["status"] == "pending"
    assert 2 < impostor.received < 30


UNAVAILABLE = b"HTTP/1.1 503 X\r\n\r\n<html>starting</html>"
OVERLOADED = _refusal("LIMIT", "OVERLOADED", retryable=True)


def test_the_list_of_tools_is_awaited_while_the_service_is_unavailable(impostor: Impostor) -> None:
    impostor.answers = [UNAVAILABLE, UNAVAILABLE, OVERLOADED, OVERLOADED]
    impostor.answer = _json({"tools": [{"name": "a"}]})
    with _client(impostor, retries=1) as client:
        assert [tool["name"] for tool in client.tools()] == ["a"]
    assert impostor.received == 5


@pytest.mark.parametrize("retries, answer", [
    (0, UNAVAILABLE),
    (1, b"HTTP/1.1 404 X\r\n\r\n<html>no</html>"),
    (1, _refusal("PERMISSION", "HALTED")),
    (1, _refusal("LIMIT", "RATE_LIMITED", retryable=True, retryAfterMs=3_600_000)),
])
def test_the_list_of_tools_fails_at_once_when_waiting_would_not_help(impostor: Impostor, retries: int, answer: bytes) -> None:
    impostor.answer = answer
    with _client(impostor, retries=retries) as client, pytest.raises(SafeToolCallError):
        client.tools()
    assert impostor.received == 1


@pytest.mark.parametrize("seconds, steps_of", [
    (30, lambda its: _flow.tools(its, "json", False)),
    (300, lambda its: _flow.wait_for_approval(its, "a", None)),
])
def test_an_outage_is_survived_for_a_limited_time(seconds: float, steps_of: Any) -> None:
    now = 0.0
    steps = steps_of(_flow.Settings("http://a.test", None, 60, 1, False, clock=lambda: now, random=lambda: 0.5))
    answer: Any = None
    with pytest.raises(ConnectionError):
        while True:
            step = steps.send(answer)
            now += step.seconds if isinstance(step, _flow.Pause) else 0
            answer = _flow.NoAnswer("nothing listens", False) if isinstance(step, _flow.Send) else None
    assert seconds <= now < seconds + 2


def test_a_refused_wait_is_the_result_of_the_run(impostor: Impostor) -> None:
    impostor.answers = [_json(PENDING)]
    impostor.answer = _refusal("APPROVAL", "APPROVAL_NOT_FOUND")
    with _client(impostor) as client:
        assert client.run("save_note")["status"] == "denied"
    assert impostor.received == 3


@pytest.mark.parametrize("hint", [31_536_000_000, 10**400, float("inf"), float("nan"), -1])
def test_no_time_to_wait_that_a_server_names_holds_the_client(impostor: Impostor, hint: Any) -> None:
    impostor.answer = _refusal("LIMIT", "RATE_LIMITED", retryable=True, retryAfterMs=hint)
    begun = time.monotonic()
    with _client(impostor, retries=1) as client:
        try:
            assert client.call("read_note")["status"] == "denied"
        except ProtocolError:
            assert hint != hint or hint == float("inf")
    assert time.monotonic() - begun < 30


FOREIGN = [
    _json({**PENDING, "approval": {"id": "../call", "message": "Wait"}}),
    b"HTTP/1.1 503 X\r\nretry-after: 31536000\r\n\r\n<html>busy</html>",
    b"HTTP/1.1 403 X\r\n\r\n<html>blocked</html>",
    b"HTTP/1.1 200 OK\r\n\r\n[]",
    b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000,
    b'HTTP/1.1 200 OK\r\n\r\n{"status":"success","result":NaN,"traceId":"1"}',
    b'HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n{"status":"success","result":1,"traceId":"1"}',
    b'HTTP/1.1 200 OK\r\n\r\n{"status":"denied","error":{"code":"X","stage":"Y","message":"Z","retryable":false}}',
    b'HTTP/1.1 202 OK\r\n\r\n{"status":"pending","approval":7,"traceId":"1"}',
    b"HTTP/1.1 302 X\r\nlocation: http://127.0.0.1:1/\r\n\r\n",
    b"HTTP/1.1 502 X\r\n\r\n<html>bad gateway</html>",
]


@pytest.mark.parametrize("answer", FOREIGN)
def test_an_answer_of_another_server_is_a_protocol_error(impostor: Impostor, answer: bytes) -> None:
    impostor.answer = answer
    with _client(impostor, retries=1) as client, pytest.raises(ProtocolError) as caught:
        client.call("read_note")
    assert caught.value.status is not None and "secret-token" not in repr(caught.value)


@given(st.one_of(st.binary(max_size=200), st.sampled_from(FOREIGN), st.binary(max_size=80).map(lambda end: b"HTTP/1.1 200 OK\r\n\r\n" + end)))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_answer_is_a_result_or_an_error_of_this_package(impostor: Impostor, answer: bytes) -> None:
    impostor.answer = answer
    with _client(impostor, retries=0, timeout=5) as client:
        for request in (lambda: client.call("read_note"), lambda: client.approval("a"), lambda: client.tools()):
            try:
                request()
            except SafeToolCallError as error:
                assert "secret-token" not in str(error) + repr(error.__context__)


def test_an_endless_answer_ends(impostor: Impostor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("safe_tool_call._flow.ANSWER_BYTES_MAX", 1000)
    impostor.answer = b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 100_000
    with _client(impostor, retries=0) as client, pytest.raises(ProtocolError):
        client.call("read_note")


def test_nothing_listens(control: Control) -> None:
    begun = time.monotonic()
    with Client("http://127.0.0.1:1", "secret-token", retries=1) as client, pytest.raises(ConnectionError) as caught:
        client.call("read_note")
    assert not caught.value.may_have_run and "secret-token" not in repr(caught.value) + str(caught.value.__context__)
    assert isinstance(caught.value, OSError) and time.monotonic() - begun < 30


@pytest.mark.parametrize("url", ["tools.example", "ftp://a", "http://tools.example", "https://me:pw@tools.example", "https://a/?b=1"])
def test_an_address_that_would_show_the_token_or_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="url"):
        Client(url, "token")


def test_representations_show_no_token() -> None:
    clients: list[Union[Client, AsyncClient]] = [Client("https://a.example", "secret-token"), AsyncClient("https://a.example", "secret-token")]
    for client in clients:
        assert "secret-token" not in repr(client) and "secret-token" not in repr(client._settings)
    with pytest.raises(ValueError) as caught:
        Client("https://a.example", "Bearer secret-token")
    assert "secret" not in str(caught.value)

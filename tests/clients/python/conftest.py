"""Lets the tests decide approvals and restart the service: `control` sends orders to the test that runs this program."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from safe_tool_call import Client


class Control:
    """The service's other side. Its orders are in `python.clients.ts`."""

    def __init__(self) -> None:
        self._http = httpx.Client(base_url=os.environ["CONTROL_URL"], timeout=60)

    def __call__(self, do: str, **order: Any) -> Any:
        answer = self._http.post("/", json={"do": do, **order})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def close(self) -> None:
        self._http.close()

    @property
    def url(self) -> str:
        return str(self("url"))

    def token(self, subject: str = "agent-7") -> str:
        return str(self("token", subject=subject))

    def approve(self, approval_id: str) -> None:
        self("approve", id=approval_id)

    def deny(self, approval_id: str, reason: str = "not today") -> None:
        self("deny", id=approval_id, reason=reason)

    def deeds(self, text: str) -> int:
        """Returns how often the tools have done this."""
        return int(self("deeds").count(text))


@pytest.fixture(scope="session")
def control() -> Iterator[Control]:
    control = Control()
    yield control
    control.close()


@pytest.fixture
def client(control: Control) -> Iterator[Client]:
    with Client(control.url, control.token()) as client:
        yield client

"""The adapters: real frameworks, the real service, and a model server that says what each test scripts."""

from __future__ import annotations

import asyncio
import json
import os
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Optional

import httpx
import pytest
from agents import Agent, Runner, RunState, set_tracing_disabled
from anthropic import Anthropic, AsyncAnthropic
from google import genai
from google.genai import types
from conftest import Control
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from openai import AsyncOpenAI, OpenAI

from safe_tool_call import AsyncClient, Client
from safe_tool_call.adapters.anthropic import amessages_tools, messages_tools
from safe_tool_call.adapters.google import acontent_tools, content_tools
from safe_tool_call.adapters.langchain import alangchain_tools, langchain_tools
from safe_tool_call.adapters.openai import achat_completion_tools, aresponses_tools, chat_completion_tools, responses_tools
from safe_tool_call.adapters.openai_agents import agent_tools

EXAMPLES = pathlib.Path(os.environ["EXAMPLES"])
set_tracing_disabled(True)


@dataclass
class Model:
    """The model server, and what it was told."""

    control: Control
    url: str

    def results(self) -> "list[Any]":
        """Returns what the model was told of its calls, in the last request."""
        return list(self.control("heard", field="results"))

    def tools(self) -> "list[dict[str, Any]]":
        return list(self.control("heard", field="tools"))

    def listed(self) -> "list[dict[str, Any]]":
        """Returns the tools as the framework sent them."""
        return list(self.control("listed"))


def script(control: Control, *turns: "dict[str, Any]") -> Model:
    return Model(control, str(control("model", script=list(turns))))


def says(text: str) -> "dict[str, Any]":
    return {"text": text}


def calls(name: str, args: object, **more: Any) -> "dict[str, Any]":
    return {"calls": [{"name": name, "args": args, **more}]}


# One agent loop for each framework: what its documentation shows.

Loop = Callable[[Model, Control, "dict[str, Any]"], str]


def chat(model: Model, control: Control, options: "dict[str, Any]") -> str:
    with Client(control.url, control.token()) as client, OpenAI(base_url=model.url + "/v1", api_key="k") as openai:
        tools = chat_completion_tools(client, **options)
        messages: list[Any] = [{"role": "user", "content": "go"}]
        while True:
            message = openai.chat.completions.create(model="stub", messages=messages, tools=tools.tools).choices[0].message
            messages.append(message)
            if not message.tool_calls:
                return str(message.content)
            messages += tools.answer(messages)


def chat_async(model: Model, control: Control, options: "dict[str, Any]") -> str:
    async def loop() -> str:
        async with AsyncClient(control.url, control.token()) as client, AsyncOpenAI(base_url=model.url + "/v1", api_key="k") as openai:
            tools = await achat_completion_tools(client, **options)
            messages: list[Any] = [{"role": "user", "content": "go"}]
            while True:
                answer = await openai.chat.completions.create(model="stub", messages=messages, tools=tools.tools)
                messages.append(answer.choices[0].message.model_dump())
                if not messages[-1]["tool_calls"]:
                    return str(messages[-1]["content"])
                messages += await tools.aanswer(messages)

    return asyncio.run(loop())


def responses(model: Model, control: Control, options: "dict[str, Any]") -> str:
    with Client(control.url, control.token()) as client, OpenAI(base_url=model.url + "/v1", api_key="k") as openai:
        tools = responses_tools(client, **options)
        items: list[Any] = [{"role": "user", "content": "go"}]
        while True:
            answer = openai.responses.create(model="stub", input=items, tools=tools.tools)
            items += answer.output
            outputs = tools.answer(items)
            if not outputs:
                return answer.output_text
            items += outputs


def responses_async(model: Model, control: Control, options: "dict[str, Any]") -> str:
    """The conversation stays at OpenAI: only outputs are sent."""

    async def loop() -> str:
        async with AsyncClient(control.url, control.token()) as client, AsyncOpenAI(base_url=model.url + "/v1", api_key="k") as openai:
            tools = await aresponses_tools(client, **options)
            items: Any = "go"
            previous: Optional[str] = None
            while True:
                answer = await openai.responses.create(model="stub", input=items, tools=tools.tools, previous_response_id=previous)
                items, previous = await tools.aanswer(answer.output), answer.id
                if not items:
                    return answer.output_text

    return asyncio.run(loop())


def messages(model: Model, control: Control, options: "dict[str, Any]") -> str:
    with Client(control.url, control.token()) as client, Anthropic(base_url=model.url, api_key="k") as anthropic:
        tools = messages_tools(client, **options)
        said: list[Any] = [{"role": "user", "content": "go"}]
        while True:
            answer = anthropic.messages.create(model="stub", max_tokens=99, messages=said, tools=tools.tools)
            said.append({"role": "assistant", "content": answer.content})
            results = tools.answer(said)
            if not results:
                return "".join(block.text for block in answer.content if block.type == "text")
            said += results


def messages_async(model: Model, control: Control, options: "dict[str, Any]") -> str:
    async def loop() -> str:
        async with AsyncClient(control.url, control.token()) as client, AsyncAnthropic(base_url=model.url, api_key="k") as anthropic:
            tools = await amessages_tools(client, **options)
            said: list[Any] = [{"role": "user", "content": "go"}]
            while True:
                answer = await anthropic.messages.create(model="stub", max_tokens=99, messages=said, tools=tools.tools)
                said.append({"role": "assistant", "content": answer.content})
                results = await tools.aanswer(said)
                if not results:
                    return "".join(block.text for block in answer.content if block.type == "text")
                said += results

    return asyncio.run(loop())


def contents(model: Model, control: Control, options: "dict[str, Any]") -> str:
    with Client(control.url, control.token()) as client, genai.Client(api_key="k", http_options={"base_url": model.url}) as google:
        tools = content_tools(client, **options)
        said: list[Any] = [types.Content(role="user", parts=[types.Part(text="go")])]
        while True:
            answer = google.models.generate_content(model="stub", contents=said, config={"tools": tools.tools})
            said += [each.content for each in answer.candidates or []]
            results = tools.answer(said)
            if not results:
                return str(answer.text)
            said += results


def contents_async(model: Model, control: Control, options: "dict[str, Any]") -> str:
    async def loop() -> str:
        async with AsyncClient(control.url, control.token()) as client:
            google = genai.Client(api_key="k", http_options={"base_url": model.url}).aio
            tools = await acontent_tools(client, **options)
            said: list[Any] = [types.Content(role="user", parts=[types.Part(text="go")])]
            while True:
                answer = await google.models.generate_content(model="stub", contents=said, config={"tools": tools.tools})
                # As a program stores it.
                said += [each.content.model_dump() for each in answer.candidates or [] if each.content is not None]
                results = await tools.aanswer(said)
                if not results:
                    await google.aclose()
                    return str(answer.text)
                said += results

    return asyncio.run(loop())


def agents_sdk(model: Model, control: Control, options: "dict[str, Any]") -> str:
    async def loop() -> str:
        async with AsyncClient(control.url, control.token()) as client:
            return str((await Runner.run(await sdk_agent(model, client, options), "go")).final_output)

    return asyncio.run(loop())


def agents_sdk_streamed(model: Model, control: Control, options: "dict[str, Any]") -> str:
    async def loop() -> str:
        async with AsyncClient(control.url, control.token()) as client:
            streamed = Runner.run_streamed(await sdk_agent(model, client, options), "go")
            async for _ in streamed.stream_events():
                pass
            return str(streamed.final_output)

    return asyncio.run(loop())


async def sdk_agent(model: Model, client: AsyncClient, options: "dict[str, Any]") -> "Agent[Any]":
    from agents import OpenAIResponsesModel

    openai = AsyncOpenAI(base_url=model.url + "/v1", api_key="k")
    return Agent(name="agent", model=OpenAIResponsesModel("stub", openai), tools=await agent_tools(client, **options))


def langchain(model: Model, control: Control, options: "dict[str, Any]") -> str:
    with Client(control.url, control.token()) as client:
        agent: Any = create_agent(chat_model(model), langchain_tools(client, **options))
        return str(agent.invoke({"messages": [{"role": "user", "content": "go"}]})["messages"][-1].text)


def langchain_async(model: Model, control: Control, options: "dict[str, Any]") -> str:
    async def loop() -> str:
        async with AsyncClient(control.url, control.token()) as client:
            agent: Any = create_agent(chat_model(model), await alangchain_tools(client, **options))
            return str((await agent.ainvoke({"messages": [{"role": "user", "content": "go"}]}))["messages"][-1].text)

    return asyncio.run(loop())


def chat_model(model: Model) -> ChatOpenAI:
    return ChatOpenAI(model="stub", base_url=model.url + "/v1", api_key=lambda: "k")


LOOPS = [chat, chat_async, responses, responses_async, messages, messages_async, contents, contents_async, agents_sdk, agents_sdk_streamed, langchain, langchain_async]
every_loop = pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)


@pytest.fixture(autouse=True)
def model_had_no_problem(control: Control) -> Iterator[None]:
    yield
    assert control("problems") == []


@every_loop
def test_the_model_is_offered_the_callers_tools_and_told_their_results(loop: Loop, control: Control) -> None:
    model = script(control, calls("read_note", {"title": "a"}), says("done"))
    assert loop(model, control, {}) == "done"
    assert model.results() == [{"untrusted": True, "output": {"done": "read a"}}]
    with Client(control.url, control.token()) as client:
        own = {tool["name"]: tool for tool in client.tools()}
    offered = {tool["name"]: tool for tool in model.tools()}
    assert set(offered) == set(own)
    assert all(offered[name]["description"] == own[name]["description"] for name in own)
    assert offered["read_note"]["schema"]["required"] == ["title"]


@pytest.mark.parametrize("loop", LOOPS[:6], ids=lambda loop: loop.__name__)
def test_tools_are_offered_in_the_strict_mode_of_the_api(loop: Loop, control: Control) -> None:
    model = script(control, calls("save_note", {"title": "strict", "waitMs": None}), says("done"))
    assert loop(model, control, {"strict": True}) == "done"
    assert all(tool["schema"]["additionalProperties"] is False for tool in model.tools())
    assert [tool.get("strict") or tool["function"]["strict"] for tool in model.listed()] == [True] * 4
    assert model.results() == [{"untrusted": True, "output": {"done": "saved strict"}}]


@every_loop
def test_a_call_whose_answer_is_lost_runs_once(loop: Loop, control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service has handled the first request for the call when the connection ends."""
    losses = [1]

    def lose(request: httpx.Request) -> None:
        if request.url.path == "/call" and losses:
            losses.pop()
            raise httpx.ReadError("lost", request=request)

    handle, ahandle = httpx.HTTPTransport.handle_request, httpx.AsyncHTTPTransport.handle_async_request

    def losing(self: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        response = handle(self, request)
        lose(request)
        return response

    async def alosing(self: httpx.AsyncHTTPTransport, request: httpx.Request) -> httpx.Response:
        response = await ahandle(self, request)
        lose(request)
        return response

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", losing)
    monkeypatch.setattr(httpx.AsyncHTTPTransport, "handle_async_request", alosing)
    title = f"lost {loop.__name__}"
    model = script(control, calls("save_note", {"title": title}), says("done"))
    assert loop(model, control, {}) == "done"
    assert model.results() == [{"untrusted": True, "output": {"done": f"saved {title}"}}]
    assert losses == [] and control.deeds(f"saved {title}") == 1


@every_loop
def test_the_model_corrects_a_refused_call(loop: Loop, control: Control) -> None:
    turns = [calls("read_note", {"title": 7}), calls("read_note", {"title": "b"}), says("done")]
    model = script(control, *turns)
    assert loop(model, control, {}) == "done"
    refused, corrected = model.results()
    assert refused["error"]["code"] == "INVALID_INPUT" and refused["error"]["details"]["issues"][0]["path"] == "title"
    assert corrected["output"] == {"done": "read b"}


@every_loop
def test_bad_calls_are_told_and_not_raised(loop: Loop, control: Control) -> None:
    both = {"calls": [{"name": "read_note", "args": {}}, {"name": "read_note", "args": {"title": "c"}}]}
    model = script(control, both, says("done"))
    assert loop(model, control, {"only": ["read_note"]}) == "done"
    first, second = model.results()
    assert first["error"]["code"] == "INVALID_INPUT" and second["output"] == {"done": "read c"}
    assert [tool["name"] for tool in model.tools()] == ["read_note"]


@pytest.mark.parametrize("loop", [chat, chat_async, responses, responses_async], ids=lambda loop: loop.__name__)
def test_arguments_that_are_not_json_and_tools_that_do_not_exist_are_told(loop: Loop, control: Control) -> None:
    wrong = {"calls": [{"name": "read_note", "args": "{title"}, {"name": "erase_all", "args": {}}]}
    model = script(control, wrong, says("done"))
    assert loop(model, control, {}) == "done"
    assert [told["error"]["code"] for told in model.results()] == ["INVALID_INPUT", "TOOL_NOT_FOUND"]


@every_loop
def test_a_call_waits_for_the_approver_and_runs_once(loop: Loop, control: Control) -> None:
    to = f"wait-{loop.__name__}"
    model = script(control, calls("send_note", {"to": to, "note": "hi"}), says("done"))
    asked: list[Any] = []

    def approve(pending: Any) -> None:
        asked.append((pending["tool"], pending["args"]))
        control.approve(pending["approval"]["id"])

    assert loop(model, control, {"on_pending": approve}) == "done"
    assert asked == [("send_note", {"to": to, "note": "hi"})]
    assert model.results() == [{"untrusted": True, "output": {"done": f"sent to {to}"}}] and control.deeds(f"sent to {to}") == 1


@every_loop
def test_a_denial_is_told_with_its_reason(loop: Loop, control: Control) -> None:
    to = f"deny-{loop.__name__}"
    model = script(control, calls("send_note", {"to": to, "note": "hi"}), says("sorry"))
    assert loop(model, control, {"on_pending": lambda pending: control.deny(pending["approval"]["id"], "too late")}) == "sorry"
    assert model.results()[0]["error"]["code"] == "APPROVAL_DENIED" and "too late" in json.dumps(model.results())
    assert control.deeds(f"sent to {to}") == 0


@every_loop
def test_a_call_that_nobody_decides_is_made_again_by_the_model(loop: Loop, control: Control) -> None:
    to = f"later-{loop.__name__}"
    again = calls("send_note", {"to": to, "note": "hi"}, id="call_0")
    model = script(control, again, calls("read_note", {"title": "meanwhile"}, id="call_1"), {**again, "calls": [{**again["calls"][0], "id": "call_2"}]}, says("done"))
    asked: list[str] = []

    def look(pending: Any) -> None:
        asked.append(pending["approval"]["id"])
        if len(asked) == 2:
            control.approve(asked[0])

    assert loop(model, control, {"on_pending": look, "approval_timeout": 0.2}) == "done"
    waiting, _, done = model.results()
    assert waiting["error"]["code"] == "APPROVAL_REQUIRED" and waiting["error"]["details"]["approval"]["id"] == asked[0]
    assert asked[1] == asked[0] and done["output"] == {"done": f"sent to {to}"}
    assert control.deeds(f"sent to {to}") == 1


# The Agents SDK itself refuses an id that comes twice.
@pytest.mark.parametrize("loop", [each for each in LOOPS if "agents" not in each.__name__], ids=lambda loop: loop.__name__)
def test_a_change_is_made_once_although_the_model_names_all_its_calls_alike(loop: Loop, control: Control) -> None:
    title = f"alike-{loop.__name__}"
    turn = calls("save_note", {"title": title}, id="call_0")
    model = script(control, turn, calls("save_note", {"title": title + "2"}, id="call_0"), says("done"))
    assert loop(model, control, {}) == "done"
    assert control.deeds(f"saved {title}") == 1 and control.deeds(f"saved {title}2") == 1


def test_a_run_of_the_agents_sdk_is_interrupted_and_goes_on_in_another_program(control: Control) -> None:
    model = script(control, calls("send_note", {"to": "sdk", "note": "hi"}), says("done"))
    options = {"on_pending": "return"}

    async def first() -> str:
        async with AsyncClient(control.url, control.token()) as client:
            result = await Runner.run(await sdk_agent(model, client, options), "go")
            assert [item.tool_name for item in result.interruptions] == ["send_note"]
            return result.to_state().to_string()

    async def second(state: str) -> str:
        async with AsyncClient(control.url, control.token()) as client:
            agent = await sdk_agent(model, client, options)
            restored: Any = await RunState.from_string(agent, state)
            for interruption in restored.get_interruptions():
                restored.approve(interruption)
            return str((await Runner.run(agent, restored)).final_output)

    stored = asyncio.run(first())
    asked = control("open")[0]
    control.approve(asked["id"])
    assert asyncio.run(second(stored)) == "done" and control.deeds("sent to sdk") == 1
    assert model.results() == [{"untrusted": True, "output": {"done": "sent to sdk"}}]


def test_what_a_program_approves_by_itself_decides_nothing(control: Control) -> None:
    model = script(control, calls("send_note", {"to": "self", "note": "hi"}), says("done"))

    async def loop() -> str:
        async with AsyncClient(control.url, control.token()) as client:
            agent = await sdk_agent(model, client, {"on_pending": "return", "approval_timeout": 0.3})
            result = await Runner.run(agent, "go")
            state = result.to_state()
            state.approve(result.interruptions[0])
            return str((await Runner.run(agent, state)).final_output)

    assert asyncio.run(loop()) == "done" and control.deeds("sent to self") == 0
    assert model.results()[0]["error"]["code"] == "APPROVAL_REQUIRED"
    asked = control("open")[0]
    control.deny(asked["id"])


@pytest.mark.parametrize("is_async", [False, True])
def test_a_graph_is_interrupted_and_goes_on_from_its_checkpoint(control: Control, is_async: bool) -> None:
    to = f"graph-{is_async}"
    both = [{"name": "send_note", "args": {"to": to, "note": "hi"}, "id": "call_0"}, {"name": "save_note", "args": {"title": to}, "id": "call_1"}]
    model = script(control, {"calls": both}, says("done"))
    saver, thread = InMemorySaver(), {"configurable": {"thread_id": to}}

    def run(given: Any) -> Any:
        """A new program each time: only the checkpoint stays."""
        if not is_async:
            with Client(control.url, control.token()) as client:
                tools = langchain_tools(client, on_pending="return")
                agent: Any = create_agent(chat_model(model), tools, checkpointer=saver)
                return agent.invoke(given, thread)

        async def loop() -> Any:
            async with AsyncClient(control.url, control.token()) as client:
                tools = await alangchain_tools(client, on_pending="return")
                agent: Any = create_agent(chat_model(model), tools, checkpointer=saver)
                return await agent.ainvoke(given, thread)

        return events.run_until_complete(loop())

    events = asyncio.new_event_loop()
    state = run({"messages": [{"role": "user", "content": "go"}]})
    (interrupt,) = state["__interrupt__"]
    assert interrupt.value["tool"] == "send_note" and interrupt.value["args"] == {"to": to, "note": "hi"}
    control.approve(interrupt.value["approval"]["id"])
    state = run(Command(resume="go on"))
    events.close()
    assert state["messages"][-1].text == "done"
    assert control.deeds(f"sent to {to}") == 1 and control.deeds(f"saved {to}") == 1


@pytest.mark.parametrize("is_async", [False, True])
def test_a_graph_calls_a_service_without_a_store(control: Control, is_async: bool) -> None:
    """The adapter's own key is refused there: the model never hears of it."""
    model = script(control, calls("read_note", {"title": "unkept"}), says("done"))
    thread: Any = {"configurable": {"thread_id": "unkept"}}
    given: Any = {"messages": [{"role": "user", "content": "go"}]}
    url = str(control("storeless"))

    async def loop() -> Any:
        async with AsyncClient(url, control.token()) as client:
            agent: Any = create_agent(chat_model(model), await alangchain_tools(client), checkpointer=InMemorySaver())
            return await agent.ainvoke(given, thread)

    if is_async:
        state = asyncio.run(loop())
    else:
        with Client(url, control.token()) as client:
            state = create_agent(chat_model(model), langchain_tools(client), checkpointer=InMemorySaver()).invoke(given, thread)
    assert state["messages"][-1].text == "done"
    assert model.results() == [{"untrusted": True, "output": {"done": "read unkept"}}]


@pytest.mark.parametrize("loop", [chat, langchain], ids=lambda loop: loop.__name__)
def test_a_conversation_that_is_stored_finds_its_approval_again(loop: Loop, control: Control) -> None:
    """The model makes the call again in a new program, which knows of the approval only from the conversation."""
    to = f"stored-{loop.__name__}"
    with Client(control.url, control.token()) as client:
        first = {"role": "assistant", "tool_calls": [{"id": "call_0", "type": "function", "function": {"name": "send_note", "arguments": json.dumps({"to": to, "note": "hi"})}}]}
        told = chat_completion_tools(client, on_pending="return").answer([first])
        assert json.loads(str(told[0]["content"]))["error"]["code"] == "APPROVAL_REQUIRED"
        asked = control("open")[0]
        control.approve(asked["id"])
        later = chat_completion_tools(client, on_pending="return").answer([first, *told, first])
    assert json.loads(str(later[0]["content"]))["output"] == {"done": f"sent to {to}"} and control.deeds(f"sent to {to}") == 1


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_is_a_whole_agent_in_ten_lines(example: pathlib.Path, control: Control) -> None:
    model = script(control, calls("send_note", {"to": example.stem, "note": "hi"}), says("sent"))
    environment = {
        **os.environ,
        **{"STC_URL": control.url, "STC_TOKEN": control.token()},
        **{"OPENAI_BASE_URL": model.url + "/v1", "OPENAI_API_KEY": "k", "OPENAI_AGENTS_DISABLE_TRACING": "1"},
        **{"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "k"},
        **{"GOOGLE_GEMINI_BASE_URL": model.url, "GEMINI_API_KEY": "k"},
    }
    program = subprocess.Popen([sys.executable, str(example), "Send it."], env=environment, stdout=subprocess.PIPE, text=True)
    while program.poll() is None:
        for asked in control("open"):
            control.approve(asked["id"])
        time.sleep(0.1)
    assert program.stdout is not None and program.stdout.read() == "sent\n" and program.returncode == 0
    program.stdout.close()
    assert control.deeds(f"sent to {example.stem}") == 1
    own = [line for line in example.read_text().splitlines() if re.match(r"\s+\S", line) and not line.strip().startswith(('"""', "#"))]
    assert len(own) <= 11, own

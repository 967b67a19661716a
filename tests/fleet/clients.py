"""MCP clients of Python, one for each run: `python clients.py official <version> | openai-agents | langchain`.

Reads the address and token of the service from CLIENT_URL and CLIENT_TOKEN, then one JSON object a line from standard input:
{"id": 1, "do": "tools"}, {"id": 2, "do": "call", "name": …, "args": …}, {"do": "cancel", "id": 2}. Answers each with a line
{"id": …, "answer": …} or {"id": …, "error": …}. Ends with the input.
"""

import asyncio
import json
import os
import sys
from contextlib import asynccontextmanager

URL = os.environ["CLIENT_URL"]
HEADERS = {"authorization": "Bearer " + os.environ["CLIENT_TOKEN"]}
# Longer than the service holds a call.
TIMEOUT_SECONDS = 300


def text_of(content):
    return "\n".join(part["text"] if isinstance(part, dict) else part.text for part in content)


@asynccontextmanager
async def official(version):
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async with httpx2.AsyncClient(headers=HEADERS, timeout=TIMEOUT_SECONDS) as http:
        transport = streamable_http_client(URL, http_client=http)
        async with Client(transport, mode=version, read_timeout_seconds=TIMEOUT_SECONDS) as client:

            async def tools():
                return [tool.name for tool in (await client.list_tools()).tools]

            async def call(name, args):
                return text_of((await client.call_tool(name, args)).content)

            yield tools, call


@asynccontextmanager
async def openai_agents():
    from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
    from agents.mcp import MCPServerStreamableHttp
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    class Script(Model):
        """A model that makes one call, and keeps the answer that it gets."""

        def __init__(self, name, args):
            self.call = ResponseFunctionToolCall(
                type="function_call", call_id="1", name=name, arguments=json.dumps(args), status="completed"
            )
            self.answer = None

        async def get_response(self, system_instructions, input, *others, **more):
            for item in [] if isinstance(input, str) else input:
                if item.get("type") == "function_call_output":
                    self.answer = item["output"]
            text = ResponseOutputText(type="output_text", text="done", annotations=[])
            done = ResponseOutputMessage(id="1", type="message", role="assistant", status="completed", content=[text])
            output = [self.call if self.answer is None else done]
            return ModelResponse(output=output, usage=Usage(), response_id=None)

        def stream_response(self, *others, **more):
            raise NotImplementedError

    # Each run has a connection of its own: one connection makes one call at a time.
    def connection():
        params = {"url": URL, "headers": HEADERS, "timeout": TIMEOUT_SECONDS}
        return MCPServerStreamableHttp(params, client_session_timeout_seconds=TIMEOUT_SECONDS)

    async def tools():
        async with connection() as server:
            return [tool.name for tool in await server.list_tools()]

    async def call(name, args):
        model = Script(name, args)
        async with connection() as server:
            agent = Agent(name="agent", model=model, mcp_servers=[server])
            await Runner.run(agent, "go", run_config=RunConfig(tracing_disabled=True))
        if isinstance(model.answer, list):
            return text_of(model.answer)
        answer = json.loads(model.answer) if model.answer.startswith('{"type":"text"') else {"text": model.answer}
        return answer["text"]

    yield tools, call


@asynccontextmanager
async def langchain():
    from langchain_mcp_adapters.client import MultiServerMCPClient

    service = {"transport": "streamable_http", "url": URL, "headers": HEADERS, "timeout": TIMEOUT_SECONDS}
    found = {tool.name: tool for tool in await MultiServerMCPClient({"service": service}).get_tools()}

    async def tools():
        return list(found)

    async def call(name, args):
        message = await found[name].ainvoke({"type": "tool_call", "id": "1", "name": name, "args": args})
        return message.content if isinstance(message.content, str) else text_of(message.content)

    yield tools, call


CLIENTS = {"official": official, "openai-agents": openai_agents, "langchain": langchain}


async def main(kind, *options):
    running = {}

    async def answer(request, work):
        try:
            reply = {"answer": await work}
        except asyncio.CancelledError:
            reply = {"error": "cancelled"}
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({"id": request["id"], **reply}), flush=True)

    async with CLIENTS[kind](*options) as (tools, call):
        print(json.dumps({"id": 0, "answer": "connected"}), flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            request = json.loads(line)
            if request["do"] == "cancel":
                running[request["id"]].cancel()
                continue
            work = tools() if request["do"] == "tools" else call(request["name"], request["args"])
            running[request["id"]] = asyncio.create_task(answer(request, work))
        for task in running.values():
            task.cancel()
        await asyncio.gather(*running.values())


asyncio.run(main(*sys.argv[1:]))

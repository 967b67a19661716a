"""An agent over OpenAI's chat completions. Reads STC_URL, STC_TOKEN and what the SDK reads: OPENAI_API_KEY, OPENAI_BASE_URL."""

import os
import sys
from typing import Any

from openai import OpenAI

from safe_tool_call import Client
from safe_tool_call.adapters.openai import PendingCall, chat_completion_tools


def show(pending: PendingCall) -> None:
    print(f"waiting for a person: approval {pending['approval']['id']}", file=sys.stderr)


with Client(os.environ["STC_URL"], os.environ["STC_TOKEN"]) as client, OpenAI() as model:
    tools = chat_completion_tools(client, on_pending=show)
    messages: list[Any] = [{"role": "user", "content": sys.argv[1]}]
    while True:
        answer = model.chat.completions.create(model="gpt-5", messages=messages, tools=tools.tools)
        messages.append(answer.choices[0].message)
        if not answer.choices[0].message.tool_calls:
            break
        messages += tools.answer(messages)
    print(answer.choices[0].message.content)

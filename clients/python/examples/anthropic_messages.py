"""An agent over Anthropic's messages. Reads STC_URL, STC_TOKEN and what the SDK reads: ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL."""

import os
import sys
from typing import Any

from anthropic import Anthropic

from safe_tool_call import Client
from safe_tool_call.adapters.anthropic import messages_tools

with Client(os.environ["STC_URL"], os.environ["STC_TOKEN"]) as client, Anthropic() as model:
    tools = messages_tools(client)
    messages: list[Any] = [{"role": "user", "content": sys.argv[1]}]
    while True:
        answer = model.messages.create(model="claude-opus-5", max_tokens=1024, messages=messages, tools=tools.tools)
        messages.append({"role": "assistant", "content": answer.content})
        results = tools.answer(messages)
        if not results:
            break
        messages += results
    print("".join(block.text for block in answer.content if block.type == "text"))

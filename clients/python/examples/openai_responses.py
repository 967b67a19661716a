"""An agent over OpenAI's Responses. Reads STC_URL, STC_TOKEN and what the SDK reads: OPENAI_API_KEY, OPENAI_BASE_URL."""

import os
import sys
from typing import Any

from openai import OpenAI

from safe_tool_call import Client
from safe_tool_call.adapters.openai import responses_tools

with Client(os.environ["STC_URL"], os.environ["STC_TOKEN"]) as client, OpenAI() as model:
    tools = responses_tools(client)
    items: list[Any] = [{"role": "user", "content": sys.argv[1]}]
    while True:
        answer = model.responses.create(model="gpt-5", input=items, tools=tools.tools)
        items += answer.output
        outputs = tools.answer(items)
        if not outputs:
            break
        items += outputs
    print(answer.output_text)

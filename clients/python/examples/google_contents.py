"""An agent over Google's generateContent. Reads STC_URL, STC_TOKEN and what the SDK reads: GEMINI_API_KEY, GOOGLE_GEMINI_BASE_URL."""

import os
import sys
from typing import Any

from google import genai
from google.genai import types

from safe_tool_call import Client
from safe_tool_call.adapters.google import content_tools

with Client(os.environ["STC_URL"], os.environ["STC_TOKEN"]) as client, genai.Client() as model:
    tools = content_tools(client)
    config = types.GenerateContentConfig(tools=tools.tools)
    contents: list[Any] = [types.Content(role="user", parts=[types.Part(text=sys.argv[1])])]
    while True:
        answer = model.models.generate_content(model="gemini-2.5-pro", contents=contents, config=config)
        contents += [each.content for each in answer.candidates or []]
        results = tools.answer(contents)
        if not results:
            break
        contents += results
    print(answer.text)

"""An agent of LangChain. A call that asks a person interrupts the graph; a checkpointer in a database outlasts the program."""

import os
import sys

from langchain.agents import create_agent
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from safe_tool_call import Client
from safe_tool_call.adapters.langchain import langchain_tools

with Client(os.environ["STC_URL"], os.environ["STC_TOKEN"]) as client:
    agent = create_agent("openai:gpt-5", langchain_tools(client, on_pending="return"), checkpointer=InMemorySaver())
    thread: RunnableConfig = {"configurable": {"thread_id": "1"}}
    state = agent.invoke({"messages": [{"role": "user", "content": sys.argv[1]}]}, thread)
    while "__interrupt__" in state:
        state = agent.invoke(Command(resume={each.id: "go on" for each in state["__interrupt__"]}), thread)
    print(state["messages"][-1].content)

"""An agent of the OpenAI Agents SDK. A call that asks a person interrupts the run, which could go on in another program."""

import asyncio
import os
import sys

from agents import Agent, Runner

from safe_tool_call import AsyncClient
from safe_tool_call.adapters.openai_agents import agent_tools


async def main() -> None:
    async with AsyncClient(os.environ["STC_URL"], os.environ["STC_TOKEN"]) as client:
        agent = Agent(name="assistant", tools=await agent_tools(client, on_pending="return"))
        result = await Runner.run(agent, sys.argv[1])
        while result.interruptions:
            state = result.to_state()
            for interruption in result.interruptions:
                state.approve(interruption)
            result = await Runner.run(agent, state)
        print(result.final_output)


asyncio.run(main())

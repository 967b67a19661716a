"""An MCP server of the official SDK for Python: `stdio`, or `http`, which prints its port."""

import socket
import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("python-tickets")


@server.tool()
def get_ticket(id: str) -> dict[str, str]:
    """Returns a ticket."""
    return {"id": id, "state": "open"}


@server.tool()
def fails(id: str) -> str:
    """Always fails."""
    raise ValueError(f"no ticket {id} in /srv/tickets")


if sys.argv[1] == "stdio":
    server.run("stdio")
else:
    import uvicorn

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="error")).run(sockets=[listener])

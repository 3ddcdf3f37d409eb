"""A real server over stdio and a real client for it, in a home folder of their own."""

import asyncio
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from fastmcp import Client
from fastmcp.client.transports import StdioTransport

ROOT = Path(__file__).parent.parent
HOME_VARIABLES = ("HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "APPDATA", "LOCALAPPDATA")
POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its client, its home folder and its database file."""

    client: Client[StdioTransport]
    home: Path
    database: Path

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its structured content. Raises ToolError when the tool answers with an error."""
        result = await self.client.call_tool(tool, arguments)
        return dict(result.structured_content or {})

    async def import_items(self, items: Sequence[dict[str, Any]], user_id: str) -> dict[str, Any]:
        """Import memories for a user through a file in the server's home folder; return the counts."""
        path = self.home / "import.json"
        path.write_text(json.dumps(items), encoding="utf-8")
        return await self.call("import_memories", source="json_file", file_path=str(path), user_id=user_id)

    async def wait_indexed(self) -> None:
        """Return when sync_status reports no work. Raises RuntimeError when a memory cannot be embedded."""
        while True:
            status = await self.call("sync_status")
            if status["failed"]:
                raise RuntimeError(f"{status['failed']} memories could not be embedded")
            if not status["pending"] and (await self.call("health_check"))["model"]["state"] == "ready":
                return
            await asyncio.sleep(POLL_SECONDS)

    def process(self) -> psutil.Process:
        """Return the server's process: the one child whose environment names this database."""
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if child.environ().get("R3_DB_PATH") == str(self.database):
                    return child
        raise RuntimeError("the server is not running")

    def process_runs(self) -> bool:
        """Tell whether the server's process is alive."""
        try:
            return self.process().status() != psutil.STATUS_ZOMBIE
        except (RuntimeError, psutil.Error):
            return False


def environment(home: Path) -> dict[str, str]:
    """Return what a server's environment must hold to live in a folder, with its database there."""
    return {
        **dict.fromkeys(HOME_VARIABLES, str(home)),
        "PYTHONPATH": str(ROOT),
        "R3_DB_PATH": str(home / "memories.db"),
    }


@contextlib.asynccontextmanager
async def serve(
    home: Path | None = None, command: Sequence[str] = ("-m", "r3_lite"), **settings: str
) -> AsyncIterator[Server]:
    """Start a server and connect to it; stop it at the end.

    `command` is given to this Python; `home` (default: a temporary folder) holds the database, `settings` are
    R3_* variables without the prefix.
    """
    with contextlib.ExitStack() as stack:
        folder = home or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        variables = {
            **os.environ,
            **environment(folder),
            **{f"R3_{name.upper()}": value for name, value in settings.items()},
        }
        log = stack.enter_context((folder / "server.log").open("a"))
        transport = StdioTransport(
            sys.executable, list(command), env=variables, cwd=str(folder), keep_alive=False, log_file=log
        )
        async with Client(transport) as client:
            yield Server(client, folder, folder / "memories.db")

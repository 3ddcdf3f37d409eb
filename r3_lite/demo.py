"""r3-lite demo: the installed server at work, seen by a real MCP client, on a file that is thrown away afterwards.

It starts the server as a client does, stores memories of two users, kills the server, starts it anew, and asks in
other words. The exit code tells whether every expected memory came first, nobody saw what belongs to another, and the
correction held.
"""

import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from fastmcp.exceptions import ToolError
from mcp import MCPError
from rich.console import Console
from rich.table import Table
from rich.text import Text

# Seconds until the demo gives up on a server that does not answer or a model that does not load.
PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Question:
    """A question of a user and the beginning of the memory that answers it."""

    user: str
    text: str
    answer: str


MEMORIES = (
    ("alice", "Our dog Biscuit is allergic to chicken, so only buy the salmon kibble."),
    ("alice", "I moved to Lisbon in March and rent a flat near the river."),
    ("alice", "Production deploys happen on Tuesdays after the stand-up, never on Fridays."),
    ("alice", "The Postgres password lives in the team vault under payments/db."),
    ("alice", "I prefer short answers with code first and prose after."),
    ("alice", "Grandma's lemon cake needs five eggs and a pinch of cardamom."),
    ("alice", "The Kestrel project stores its events in ClickHouse, not in Kafka."),
    ("alice", "My passport expires on 14 September 2027."),
    ("ben", "I am training for the Valencia marathon in December."),
    ("ben", "My flat is in Oslo, on the fourth floor without a lift."),
    ("ben", "I cannot eat peanuts; even traces make me ill."),
    ("ben", "The invoice for the kayak trip is still unpaid."),
)
QUESTIONS = (
    Question("alice", "What must I not feed the pet?", "Our dog Biscuit"),
    Question("alice", "Which city do I live in now?", "I moved to Lisbon"),
    Question("alice", "Where do I find the credentials of the database?", "The Postgres password"),
    Question("alice", "How should you write your replies to me?", "I prefer short answers"),
    Question("alice", "What goes into the dessert from my grandmother?", "Grandma's lemon cake"),
    Question("alice", "When does my travel document run out?", "My passport expires"),
    Question("ben", "Which city do I live in now?", "My flat is in Oslo"),
    Question("ben", "Is there any food that is dangerous for me?", "I cannot eat peanuts"),
    Question("ben", "What do I still have to pay?", "The invoice"),
)
DEPLOYS = Question("alice", "On which day of the week does new software go live?", "Production deploys")
CORRECTED = "Production deploys happen on Wednesdays after the stand-up, never on Fridays."


def run(console: Console) -> int:
    """Show the demo on the console and return the exit code: 0, or 1 when anything is not as it should be."""
    with tempfile.TemporaryDirectory(prefix="r3-lite-demo-", ignore_cleanup_errors=True) as folder:
        log = Path(folder) / "server.log"
        try:
            failures = asyncio.run(_show(console, Path(folder) / "memories.db", log))
        except (MCPError, ToolError, OSError, RuntimeError, TimeoutError) as error:
            failures = [f"the server could not be used ({type(error).__name__}: {error})"]
            if log.exists():
                console.print(Text(log.read_text(encoding="utf-8", errors="replace")[-2000:], style="dim"))
    if failures:
        console.print(Text("\nNot as expected: " + "; ".join(failures) + ".", style="bold red"))
        return 1
    console.print(Text("\nEverything as expected.", style="bold green"), "The file of this demo is deleted again.")
    console.print("Connect your own client now: r3-lite config claude-desktop (or claude-code, cursor, vscode, gemini)")
    return 0


async def _show(console: Console, path: Path, log: Path) -> list[str]:
    console.print(Text("r3-lite: memory for AI assistants, in one SQLite file", style="bold"))
    others = set(psutil.Process().children())
    async with _server(console, path, log, "A client starts the server") as client:
        ids = await _store(console, client)
        _kill(set(psutil.Process().children()) - others)
    console.print("Right after the last answer the server is killed, as by a power cut.")
    async with _server(console, path, log, "The client starts it again, on the same file") as client:
        await _until_indexed(client)
        counts = (await _call(client, "health_check"))["counts"]
        console.print(f"Nothing is lost: {counts['memories']} memories, all indexed for search by meaning\n")
        failures = await _ask(console, client, QUESTIONS, "Questions in other words than were stored")
        failures += await _keep_apart(console, client, ids[QUESTIONS[0].answer])
        failures += await _correct(console, client, ids[DEPLOYS.answer])
    return failures


@contextlib.asynccontextmanager
async def _server(console: Console, path: Path, log: Path, title: str) -> AsyncIterator[Client[StdioTransport]]:
    """Start the server as a client does, with this Python, and connect."""
    environment = {**os.environ, "R3_DB_PATH": str(path), "R3_DEMO": "false", "R3_INTELLIGENCE": "full"}
    transport = StdioTransport(
        sys.executable, ["-m", "r3_lite"], env=environment, cwd=str(path.parent), keep_alive=False, log_file=log
    )
    started = time.perf_counter()
    async with Client(transport, timeout=PATIENCE) as client:
        tools = await client.list_tools()
        seconds = time.perf_counter() - started
        console.print(f"\n{title}: {len(tools)} tools, ready after {seconds:.1f} s")
        yield client


def _kill(processes: set[psutil.Process]) -> None:
    for process in processes:
        process.kill()


async def _store(console: Console, client: Client[StdioTransport]) -> dict[str, str]:
    """Store all memories and return their ids by the beginning of their texts that questions name."""
    ids: dict[str, str] = {}
    started = time.perf_counter()
    for user, text in MEMORIES:
        saved = await _call(client, "add_memory", content=text, user_id=user)
        ids |= {q.answer: saved["memory_id"] for q in (*QUESTIONS, DEPLOYS) if text.startswith(q.answer)}
    each = (time.perf_counter() - started) / len(MEMORIES) * 1000
    users = " and ".join(sorted({user for user, _ in MEMORIES}))
    console.print(f"{len(MEMORIES)} memories of {users} stored, {each:.0f} ms each")
    return ids


async def _until_indexed(client: Client[StdioTransport]) -> None:
    """Wait until every memory is found by meaning: saving answers at once, indexing follows in the background."""
    deadline = time.monotonic() + PATIENCE
    while True:
        health = await _call(client, "health_check")
        state = health["model"]["state"]
        if state == "ready" and not health["index"]["without_vector"]:
            return
        if state == "unavailable":
            raise RuntimeError(health["model"]["last_error"])
        if time.monotonic() > deadline:
            raise TimeoutError("the memories were not indexed in time")
        await asyncio.sleep(0.1)


async def _ask(
    console: Console, client: Client[StdioTransport], questions: tuple[Question, ...], title: str
) -> list[str]:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for column in ("who", "asks", "gets first", "score", "ms"):
        table.add_column(column, no_wrap=column in ("who", "score", "ms"))
    failures = []
    for question in questions:
        started = time.perf_counter()
        found = await _call(client, "search_memory", query=question.text, user_id=question.user, limit=3)
        milliseconds = (time.perf_counter() - started) * 1000
        best: dict[str, Any] = found["results"][0] if found["results"] else {"content": "nothing", "score": 0.0}
        right = best["content"].startswith(question.answer)
        if not right:
            failures.append(f"“{question.text}” did not find “{question.answer} …” first")
        answer = Text(best["content"], style="green" if right else "red")
        table.add_row(question.user, question.text, answer, f"{best['score']:.2f}", f"{milliseconds:.0f}")
    console.print(table)
    return failures


async def _keep_apart(console: Console, client: Client[StdioTransport], alices: str) -> list[str]:
    """Let ben look for what is alice's: by question, by list and by id."""
    own = {text for user, text in MEMORIES if user == "ben"}
    found = await _call(client, "search_memory", query=QUESTIONS[0].text, user_id="ben")
    page = await _call(client, "get_all_memories", user_id="ben")
    by_id = await client.call_tool("get_memory", {"memory_id": alices, "user_id": "ben"}, raise_on_error=False)
    seen = {memory["content"] for memory in (*found["results"], *page["memories"])}
    console.print(Text("\nUsers are kept apart", style="bold"))
    console.print(f"ben asks “{QUESTIONS[0].text}” and lists everything: he sees {len(seen - own)} memories of alice")
    console.print(f"ben asks for one of hers by its id: {(by_id.structured_content or {}).get('code', 'he gets it')}")
    return [] if seen <= own and by_id.is_error else ["ben saw a memory of alice"]


async def _correct(console: Console, client: Client[StdioTransport], memory_id: str) -> list[str]:
    """Correct a memory, ask for it, and read how it came to be."""
    console.print(Text("\nA correction replaces, and the history keeps what was", style="bold"))
    await _call(client, "update_memory", memory_id=memory_id, content=CORRECTED, user_id="alice")
    await _until_indexed(client)
    found = await _call(client, "search_memory", query=DEPLOYS.text, user_id="alice", limit=3)
    versions = (await _call(client, "get_memory_history", memory_id=memory_id, user_id="alice"))["history"]
    for version in versions:
        console.print(f"{version['version']}. {version['action']}: {version['content']}")
    texts = [memory["content"] for memory in found["results"]]
    console.print(f"alice asks “{DEPLOYS.text}”: {texts[0] if texts else 'nothing'}")
    old = next(text for _, text in MEMORIES if text.startswith(DEPLOYS.answer))
    held = texts[:1] == [CORRECTED] and old not in texts and [v["content"] for v in versions] == [old, CORRECTED]
    return [] if held else ["the correction did not hold"]


async def _call(client: Client[StdioTransport], tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    return result.structured_content or {}

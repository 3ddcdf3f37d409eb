"""How long does a client wait for each tool, and how much of that is work that cannot be avoided?

Method: one server with 3,000 notes, driven over stdio. Every round calls each tool once, in random order, and
between calls waits until nothing is left to index. A round also times what the tools build on: a tool of the same
server that does nothing, a bare commit of one row with the same pragmas on the same disk, and the embedding of the
same query with the same model in this process. Times are medians in milliseconds at the client, from the call to
the parsed answer; the client's own check of the answer against the output schema is measured apart ("check") and is
not in them. A second server, with synchronous = NORMAL, shows what a durable commit costs.

Waiting for a core counts as time, so measure on a quiet machine; the load average is printed.

Bars: add <= no-op + commit + 4 ms; uncached search <= query embedding + 8 ms, the no-op's round trip taken off (it
is shown with it too); cached search <= no-op + 1 ms.

    python -m benchmarks.latency [--memories 3000] [--rounds 60] [--json FILE]
"""

import argparse
import asyncio
import contextlib
import os
import random
import shutil
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
from rich.console import Console
from rich.table import Table

from benchmarks.bars import Bar, at_most, print_bars, write_json
from benchmarks.notes import notes, questions
from benchmarks.server import Server, serve
from r3_lite.embed import Encoder

USER = "default"
ADD_MS = 4.0
UNCACHED_MS = 8.0
CACHED_MS = 1.0
NOOP = ("-m", "benchmarks.noop_server")

Times = dict[str, list[float]]
"""Milliseconds by what was timed."""


class BareCommits:
    """One row per transaction into a table of its own, with the pragmas of the server: the floor of any write."""

    def __init__(self, path: Path, synchronous: str) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.execute(f"PRAGMA journal_mode = wal; PRAGMA synchronous = {synchronous}")
        self._connection.execute("CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, content TEXT)")

    def commit(self, text: str) -> None:
        """Store one text durably."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute("INSERT INTO notes (content) VALUES (?)", (text,))
        self._connection.execute("COMMIT")


async def timed_call(server: Server, times: Times, name: str, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool, note its time and the client's schema check apart, and return its structured content."""
    began = time.perf_counter()
    result = await server.client.call_tool_mcp(tool, arguments)
    answered = time.perf_counter()
    if result.is_error:
        raise RuntimeError(f"{tool} failed: {result.content}")
    # The call above contains this very check.
    await server.client.session.validate_tool_result(tool, result)
    checked = time.perf_counter() - answered
    times[name].append((answered - began - checked) * 1000)
    times[f"{name} check"].append(checked * 1000)
    return dict(result.structured_content or {})


@contextlib.contextmanager
def timed(times: Times, name: str) -> Iterator[None]:
    """Note how long the block takes."""
    began = time.perf_counter()
    yield
    times[name].append((time.perf_counter() - began) * 1000)


async def measure(memories: int, rounds: int) -> dict[str, Any]:
    """Fill a server, copy its file for a second one with synchronous = NORMAL, run the rounds, return the figures."""
    async with contextlib.AsyncExitStack() as stack:
        full_home, normal_home = (Path(stack.enter_context(TemporaryDirectory())) for _ in range(2))
        server = await stack.enter_async_context(serve(full_home, NOOP))
        await server.import_items([{"content": text} for text in notes(memories)], USER)
        await server.wait_indexed()
        for suffix in ("", "-wal"):
            shutil.copy(f"{server.database}{suffix}", normal_home)
        normal = await stack.enter_async_context(serve(normal_home, NOOP, synchronous="normal"))
        # After the import: both would share the cores.
        encoder = Encoder(None, cache_dir=full_home)
        encoder.load()
        times = await run_rounds(server, normal, encoder, rounds)
        return {
            "memories": memories,
            "rounds": rounds,
            "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
            "resident_mb": server.process().memory_info().rss / 2**20,
            "milliseconds": {name: _percentiles(values) for name, values in times.items()},
        }


async def run_rounds(server: Server, normal: Server, encoder: Encoder, rounds: int) -> Times:
    """Call everything once a round, in random order; return the times of all rounds."""
    times: Times = defaultdict(list)
    rng = random.Random(0)
    fresh, asked = iter(notes(3 * rounds, seed=1)), iter(questions(rounds + 1))
    full_commits = BareCommits(server.home / "bare.db", "full")
    normal_commits = BareCommits(normal.home / "bare.db", "normal")
    page = (await server.call("get_all_memories", limit=500))["memories"]
    query = next(asked)
    for one in (server, normal):
        await one.call("search_memory", query=query)
        await one.wait_indexed()
    for number in range(rounds):
        known = page[number % len(page)]["id"]
        steps = [
            timed_call(server, times, "no-op", "noop"),
            timed_call(server, times, "get", "get_memory", memory_id=known),
            timed_call(server, times, "list of 10", "get_all_memories", limit=10),
            timed_call(server, times, "update", "update_memory", memory_id=known, content=next(fresh)),
            _search(server, times, encoder, next(asked)),
            _add(server, times, "add", next(fresh)),
            _add(normal, times, "add, NORMAL", next(fresh)),
            _commit(full_commits, times, "bare commit, FULL"),
            _commit(normal_commits, times, "bare commit, NORMAL"),
        ]
        rng.shuffle(steps)
        for step in steps:
            await step
            await _settle(server)
            await _settle(normal)
    return times


async def _add(server: Server, times: Times, name: str, text: str) -> None:
    added = await timed_call(server, times, name, "add_memory", content=text)
    if added["duplicate"]:
        raise RuntimeError("a fresh note was taken for a duplicate")
    await _settle(server)
    if name == "add":
        await timed_call(server, times, "delete", "delete_memory", memory_id=added["memory_id"])


async def _search(server: Server, times: Times, encoder: Encoder, query: str) -> None:
    with timed(times, "embedding of a query"):
        encoder.embed_query(query)
    found = await timed_call(server, times, "search", "search_memory", query=query)
    again = await timed_call(server, times, "search, cached", "search_memory", query=query)
    if (found["source"], again["source"], found["mode"]) != ("storage", "cache", "hybrid"):
        raise RuntimeError("a search was answered from the wrong place")


async def _commit(commits: BareCommits, times: Times, name: str) -> None:
    with timed(times, name):
        commits.commit("a text of about the length of a note, so that the commit writes a page or two")


async def _settle(server: Server) -> None:
    while (await server.call("sync_status"))["pending"]:
        await asyncio.sleep(0.01)


def _percentiles(values: list[float]) -> dict[str, float]:
    return {"p50": statistics.median(values), "p95": statistics.quantiles(values, n=20)[-1]}


def bars(figures: dict[str, Any]) -> list[Bar]:
    """Return the bars of this benchmark."""
    p50 = {name: value["p50"] for name, value in figures["milliseconds"].items()}
    noop, commit, embedding = p50["no-op"], p50["bare commit, FULL"], p50["embedding of a query"]
    with_check = p50["search, cached"] + p50["search, cached check"]
    return [
        at_most(
            "add, p50",
            p50["add"],
            noop + commit + ADD_MS,
            "ms",
            f"no-op {noop:.1f} + commit {commit:.1f} + {ADD_MS:.0f}",
        ),
        at_most(
            "uncached search without round trip, p50",
            p50["search"] - noop,
            embedding + UNCACHED_MS,
            "ms",
            f"embedding {embedding:.1f} + {UNCACHED_MS:.0f}; with the no-op's round trip {p50['search']:.1f}",
        ),
        at_most(
            "cached search, p50",
            p50["search, cached"],
            noop + CACHED_MS,
            "ms",
            f"no-op {noop:.1f} + {CACHED_MS:.0f}; with the client's schema check {with_check:.1f}",
        ),
    ]


def print_times(figures: dict[str, Any]) -> None:
    """Print the medians and 95th percentiles, each also as a multiple of the no-op."""
    table = Table(title=f"{figures['memories']} memories, {figures['rounds']} rounds, ms", title_justify="left")
    table.add_column("")
    for column in ("p50", "p95", "× no-op", "check p50"):
        table.add_column(column, justify="right")
    times = figures["milliseconds"]
    for name, value in times.items():
        if not name.endswith(" check"):
            check = times.get(f"{name} check")
            ratio = value["p50"] / times["no-op"]["p50"]
            table.add_row(
                name,
                f"{value['p50']:.2f}",
                f"{value['p95']:.2f}",
                f"{ratio:.2f}",
                f"{check['p50']:.2f}" if check else "",
            )
    Console(width=100).print(table)
    print(f"load average {figures['load_average']}, server {figures['resident_mb']:.0f} MB resident")


def main() -> None:
    """Read the command line, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=3000, help="notes in the store (default: 3000)")
    parser.add_argument("--rounds", type=int, default=60, help="calls of each tool (default: 60)")
    parser.add_argument("--json", type=Path, help="file for the figures")
    arguments = parser.parse_args()
    figures = asyncio.run(measure(arguments.memories, arguments.rounds))
    print_times(figures)
    print_bars(bars(figures))
    write_json(arguments.json, bars(figures), figures)


if __name__ == "__main__":
    main()

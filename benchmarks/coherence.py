"""Is what a server tells ever older than the file, when several servers write to it at once?

Method: processes with a server each, all on one file and for one user, do random operations through the tools: add,
update, delete, get, list, search. Each reads the file itself, through a connection of its own, before and after every
answer, and judges the answer by what it saw there:

- A memory must be at least as new as before the call and no newer than after it; one that was gone before must not be
  found, one that was there before and after must be.
- A list must hold every memory that was there before and after, and none that had been deleted before. Where the user's
  generation in the file is the same at both times it must be equal to the file.
- A search is asked again with `prefer_cache: false`. Where the generation is the same before and after both, the two
  answers must be equal.

At the end the file must hold every memory whose adding was acknowledged and its deletion was not, with the keys of all
acknowledged updates; the hits and misses of the caches must add up to the calls, and the counted accesses to the reads.

Bars: no stale answer, no lost row or update, no failed call, statistics that add up.

    python -m benchmarks.coherence [--processes 4] [--operations 2000] [--basic] [--json FILE]
"""

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw

from benchmarks.bars import Bar, at_most, print_bars, write_json
from benchmarks.server import ROOT, environment

USER = "default"
TOPICS = "tea coffee boiler garden violin train passport dentist invoice kayak recipe lantern".split()
# So many memories at the most: a list shows them all, unshortened.
ROOM = 40
WEIGHTS = {"get": 40, "search": 25, "list": 15, "update": 8, "add": 7, "delete": 5}

Row = tuple[str, str, dict[str, Any]]
"""Time of the last update, content and metadata."""


@dataclass(frozen=True, slots=True)
class Look:
    """The file at one moment: its generation, the memories by id, newest first, and the ids of those deleted."""

    generation: int
    rows: dict[str, Row]
    gone: frozenset[str]


class Truth:
    """The file, read without r3-lite."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        self._connection.set_busy_timeout(10_000)

    def look(self) -> Look:
        """Return what the file holds now, in one snapshot."""
        connection = self._connection
        connection.execute("BEGIN")
        try:
            generation = connection.execute("SELECT generation FROM users WHERE user_id = ?", (USER,)).get or 0
            found: list[Any] = connection.execute(
                """SELECT id, updated_at, content, metadata FROM memories WHERE user_id = ?
                   ORDER BY created_at DESC, seq DESC""",
                (USER,),
            ).fetchall()
            gone: list[Any] = connection.execute("SELECT memory_id FROM history WHERE action = 'deleted'").fetchall()
        finally:
            connection.execute("ROLLBACK")
        rows = {row[0]: (row[1], row[2], json.loads(row[3])) for row in found}
        return Look(generation, rows, frozenset(row[0] for row in gone))

    def accesses(self) -> dict[str, int]:
        """Return the counted accesses by id."""
        rows: Any = self._connection.execute("SELECT id, count FROM accesses JOIN memories ON seq = memory")
        return dict(rows)


def row_of(memory: dict[str, Any]) -> Row:
    """Return a memory of an answer as the file holds it."""
    return memory["updated_at"], memory["content"], memory["metadata"]


def in_time(told: Row | None, before: Row | None, after: Row | None, *, gone: bool = False) -> bool:
    """Tell whether an answer about one memory is one that the file gave between two looks at it.

    `gone` says that the memory had been deleted already at the first.
    """
    if told is not None and before is None and after is None:
        return not gone  # it came and went in between
    if before == after:
        return told == before
    if told is None:
        return after is None or before is None
    return (before is None or told[0] >= before[0]) and (after is None or told[0] <= after[0])


def all_in_time(told: dict[str, Row], before: Look, after: Look, *, complete: bool) -> bool:
    """Tell whether an answer about several memories is; a complete one holds all that there are."""
    ids = {*told, *before.rows, *after.rows} if complete else set(told)
    return all(in_time(told.get(i), before.rows.get(i), after.rows.get(i), gone=i in before.gone) for i in ids)


class Worker:
    """One server with its client in this process, and what became of its operations."""

    def __init__(self, client: Any, path: Path, number: int) -> None:
        self._client = client
        self._path = path
        self._truth = Truth(path)
        self._number = number
        self._random = random.Random(number)
        self.done: Counter[str] = Counter()
        self.added: list[str] = []
        self.deleted: list[str] = []
        self.keys: list[tuple[str, str]] = []
        self.read: Counter[str] = Counter()
        self.faults: list[str] = []

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any] | None:
        """Call a tool and return its structured content, None where the memory is not found."""
        result = await self._client.call_tool_mcp(tool, arguments)
        data: dict[str, Any] = result.structured_content
        if result.is_error:
            if data["code"] != "MEMORY_NOT_FOUND":
                self.faults.append(f"failed: {tool} {data['code']}")
            return None
        return data

    async def step(self, number: int) -> None:
        """Do one random operation and judge its answer."""
        known = list(self._truth.look().rows)
        kind = self._random.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        if not known or (kind == "add" and len(known) >= ROOM):
            kind = "add" if not known else "delete"
        # A reading that is repeated at once is one for the cache.
        times = self._random.choice((1, 2, 3)) if kind in ("get", "list", "search") else 1
        self.done[kind] += times
        # Few are asked for often: the caches have something to do.
        chosen = known[min(int(self._random.expovariate(0.2)), len(known) - 1)] if known else ""
        if kind == "add":
            topic = self._random.choice(TOPICS)
            content = f"{topic} {self._number}-{number}"
            data = await self.call("add_memory", content=content, skip_duplicate_check=True)
            if data is not None:
                self.added.append(data["memory_id"])
        elif kind == "update":
            await self._update(chosen, number)
        elif kind == "delete":
            if await self.call("delete_memory", memory_id=chosen) is not None:
                self.deleted.append(chosen)
        elif kind == "get":
            for _ in range(times):
                await self._get(chosen)
        elif kind == "list":
            for _ in range(times):
                await self._list()
        else:
            topic = self._random.choice(TOPICS)
            for _ in range(times):
                await self._search(topic)

    async def _update(self, chosen: str, number: int) -> None:
        key = f"{self._number}-{number}"
        text = {"content": f"{self._random.choice(TOPICS)} {key}"} if self._random.random() < 0.5 else {}
        data = await self.call("update_memory", memory_id=chosen, metadata={key: number}, **text)
        if data is not None:
            self.keys.append((chosen, key))
            self.read[chosen] += 1

    async def _get(self, chosen: str) -> None:
        before = self._truth.look()
        data = await self.call("get_memory", memory_id=chosen)
        after = self._truth.look()
        self.read[chosen] += data is not None
        told, gone = row_of(data) if data else None, chosen in before.gone
        if not in_time(told, before.rows.get(chosen), after.rows.get(chosen), gone=gone):
            self.faults.append("stale: get")

    async def _list(self) -> None:
        before = self._truth.look()
        data = await self.call("get_all_memories", limit=500, include_cache_stats=False)
        after = self._truth.look()
        if data is None:
            return
        self.done[f"list from {data['source']}"] += 1
        told = {memory["id"]: row_of(memory) for memory in data["memories"]}
        if data["truncated"]:
            self.faults.append("failed: a list was cut")
        elif not all_in_time(told, before, after, complete=True):
            self.faults.append("stale: list")
        elif before.generation == after.generation:
            self.done["lists compared"] += 1
            if list(told.items()) != list(before.rows.items()):
                self.faults.append("stale: list against the file")

    async def _search(self, query: str) -> None:
        before = self._truth.look()
        data = await self.call("search_memory", query=query)
        after = self._truth.look()
        anew = await self.call("search_memory", query=query, prefer_cache=False)
        same = self._truth.look().generation == before.generation
        if data is None or anew is None:
            return
        self.done[f"search from {data['source']}"] += 1
        if not all_in_time({hit["id"]: row_of(hit) for hit in data["results"]}, before, after, complete=False):
            self.faults.append("stale: hit")
        # While a model loads the two may be made in different ways.
        if same and data["mode"] == anew["mode"]:
            self.done["searches compared"] += 1
            if data["results"] != anew["results"]:
                self.faults.append("stale: search")

    async def report(self) -> dict[str, Any]:
        """Return what the process did, and the server's own statistics."""
        return {
            "done": dict(self.done),
            "added": self.added,
            "deleted": self.deleted,
            "keys": self.keys,
            "read": dict(self.read),
            "faults": self.faults,
            "stats": await self.call("cache_stats"),
        }


async def work(path: Path, number: int, operations: int) -> dict[str, Any]:
    """Run the operations of one process; the server's end writes the counts of accesses."""
    from fastmcp import Client

    from r3_lite.app import mcp

    async with Client(mcp) as client:
        # Makes the file.
        await client.call_tool("health_check", {})
        worker = Worker(client, path, number)
        for step in range(operations):
            await worker.step(step)
        return await worker.report()


def run(processes: int, operations: int, intelligence: str) -> dict[str, Any]:
    """Run all processes at once on a new file and return the figures. Raises CalledProcessError when one fails."""
    began = time.perf_counter()
    with TemporaryDirectory() as folder:
        home = Path(folder)
        variables = {**os.environ, **environment(home), "R3_INTELLIGENCE": intelligence, "R3_SYNCHRONOUS": "normal"}
        variables |= {"R3_BUSY_TIMEOUT": "60", "R3_RATE_LIMITS": "off"}
        command = [sys.executable, "-m", "benchmarks.coherence", "--operations", str(operations), "--worker"]
        started = [
            subprocess.Popen([*command, str(n)], cwd=ROOT, env=variables, stdout=subprocess.PIPE, text=True)
            for n in range(processes)
        ]
        outputs = [process.communicate()[0] for process in started]
        for process in started:
            if process.returncode:
                raise subprocess.CalledProcessError(process.returncode, process.args)
        reports = [json.loads(output) for output in outputs]
        truth = Truth(home / "memories.db")
        return {**judge(reports, truth.look().rows, truth.accesses()), "seconds": time.perf_counter() - began}


def judge(reports: list[dict[str, Any]], rows: dict[str, Row], accesses: dict[str, int]) -> dict[str, Any]:
    """Compare what all processes were told with what the file holds in the end."""
    added = {memory for report in reports for memory in report["added"]}
    deleted = {memory for report in reports for memory in report["deleted"]}
    keys = [(memory, key) for report in reports for memory, key in report["keys"] if memory in rows]
    reads: Counter[str] = Counter()
    wrong = []
    for report in reports:
        reads.update({memory: count for memory, count in report["read"].items() if memory in rows})
        done, parts = report["done"], report["stats"]["parts"]
        if parts["records"]["hits"] + parts["records"]["misses"] != done.get("get", 0):
            wrong.append("records")
        if parts["answers"]["hits"] + parts["answers"]["misses"] != done.get("list", 0) + done.get("search", 0):
            wrong.append("answers")
        from_cache = done.get("list from cache", 0) + done.get("search from cache", 0)
        if parts["answers"]["hits"] != from_cache:
            wrong.append("answers from the cache")
    if +reads != Counter(accesses):
        wrong.append("accesses")
    faults = Counter(fault for report in reports for fault in report["faults"])
    total: Counter[str] = sum((Counter(report["done"]) for report in reports), Counter())
    return {
        "operations": dict(total),
        "faults": dict(faults),
        "stale": sum(count for fault, count in faults.items() if fault.startswith("stale")),
        "failed": sum(count for fault, count in faults.items() if fault.startswith("failed")),
        "lost": len((added - deleted) ^ rows.keys()) + sum(key not in rows[memory][2] for memory, key in keys),
        "wrong statistics": wrong,
        "hit rates": {
            part: [_share(report["stats"]["parts"][part]) for report in reports] for part in ("records", "answers")
        },
    }


def _share(part: dict[str, int]) -> float:
    return round(part["hits"] / max(part["hits"] + part["misses"], 1), 3)


def bars(figures: dict[str, Any]) -> list[Bar]:
    """Return the bars of this benchmark."""
    done = figures["operations"]
    reads = sum(done.get(kind, 0) for kind in ("get", "list", "search"))
    writes = sum(done.get(kind, 0) for kind in ("add", "update", "delete"))
    return [
        at_most("stale answers", figures["stale"], 0, note=f"{reads:,} reads beside {writes:,} writes"),
        at_most("lost rows and updates", figures["lost"], 0),
        at_most("failed calls", figures["failed"], 0),
        at_most("statistics that do not add up", len(figures["wrong statistics"]), 0),
    ]


def main() -> None:
    """Read the command line, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=4, help="servers on the file (default: 4)")
    parser.add_argument("--operations", type=int, default=2000, help="of each process (default: 2000)")
    parser.add_argument("--basic", action="store_true", help="without the model")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help="file for the figures")
    arguments = parser.parse_args()
    if arguments.worker is not None:
        path = Path(os.environ["R3_DB_PATH"])
        print(json.dumps(asyncio.run(work(path, arguments.worker, arguments.operations))), flush=True)
        # As the command does: the model's threads need not end first.
        os._exit(0)
    figures = run(arguments.processes, arguments.operations, "basic" if arguments.basic else "full")
    print(json.dumps({key: figures[key] for key in ("operations", "faults", "hit rates", "seconds")}, indent=2))
    print_bars(bars(figures))
    write_json(arguments.json, bars(figures), figures)


if __name__ == "__main__":
    main()

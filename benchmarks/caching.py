"""What is each part of the cache worth?

Method: two servers over stdio with the same notes, one with the cache and one with R3_CACHE_MAX_SIZE=0, are called in
random order, again and again with the same arguments; medians in milliseconds at the client, the client's own check of
the answer left out. Then what an engine in this process needs for a memory that it holds and for one that it has to
read, without the protocol. Last, the share of hits in an assistant's day: a store of notes in which most calls read one
of the favourite notes, some add, few change one. It is counted once as it is, and once as it would be if every
write, also an add or a vector that arrives, made all records of the user outdated.

Bars: a repeated search takes at most 0.7 of one without the cache, a repeated list no longer than without.

    python -m benchmarks.caching [--memories 1000] [--rounds 60] [--json FILE]
"""

import argparse
import asyncio
import contextlib
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from rich.console import Console
from rich.table import Table

from benchmarks.bars import Bar, at_most, print_bars, write_json
from benchmarks.latency import USER, Times, timed_call
from benchmarks.notes import notes, questions
from benchmarks.server import Server, serve
from r3_lite import store
from r3_lite.engine import Engine
from r3_lite.settings import load_settings

SEARCH_SHARE = 0.7
# Of the calls of an assistant's day, and how many of the notes are read again and again.
DAY = {"get": 70, "add": 25, "update": 5}
FAVOURITES = 100
CALLS = 2_000


async def measure(memories: int, rounds: int) -> dict[str, float]:
    """Return the medians of each tool with the cache and without."""
    async with contextlib.AsyncExitStack() as stack:
        servers = {
            "with": await stack.enter_async_context(serve()),
            "without": await stack.enter_async_context(serve(cache_max_size="0")),
        }
        for server in servers.values():
            await server.import_items([{"content": text} for text in notes(memories)], USER)
            await server.wait_indexed()
        times: Times = defaultdict(list)
        rng = random.Random(0)
        known = {
            name: [memory["id"] for memory in (await server.call("get_all_memories", limit=20))["memories"]]
            for name, server in servers.items()
        }
        asked = list(questions(10))
        # The first round fills the cache and the operating system's.
        for number in range(-1, rounds):
            steps = [
                (name, server, tool, arguments)
                for name, server in servers.items()
                for tool, arguments in _calls(known[name], asked, max(number, 0))
            ]
            rng.shuffle(steps)
            for name, server, tool, arguments in steps:
                await _repeat(server, times if number >= 0 else defaultdict(list), name, tool, arguments)
        return {name: statistics.median(values) for name, values in times.items() if not name.endswith("check")}


def _calls(known: list[str], asked: list[str], number: int) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("get_memory", {"memory_id": known[number % len(known)]}),
        ("get_all_memories", {"limit": 10}),
        ("get_all_memories", {"limit": 100}),
        ("search_memory", {"query": asked[number % len(asked)]}),
    ]


async def _repeat(server: Server, times: Times, name: str, tool: str, arguments: dict[str, Any]) -> None:
    """Call twice: the second time the answer, or the record, is in the cache if there is one."""
    label = f"{tool} {arguments['limit']}" if "limit" in arguments else tool
    await server.call(tool, **arguments)
    await timed_call(server, times, f"{label}, {name}", tool, **arguments)


def engine_microseconds(engine: Engine, ids: list[str]) -> dict[str, float]:
    """Return the median microseconds of a `get` that hits and of one that reads the file."""
    hits: list[float] = []
    misses: list[float] = []
    for number in range(CALLS):
        memory_id = ids[number % len(ids)]
        engine.records.forget(USER, memory_id)
        for times in (misses, hits):
            began = time.perf_counter()
            engine.get(USER, memory_id)
            times.append((time.perf_counter() - began) * 1e6)
    return {"hit": statistics.median(hits), "miss": statistics.median(misses)}


def day(engine: Engine, ids: list[str]) -> str:
    """Run an assistant's day and return the rate of hits in it."""
    rng = random.Random(1)
    fresh = iter(notes(CALLS, seed=rng.randrange(10**6)))
    hits, misses = engine.records.counts.hits, engine.records.counts.misses
    for number in range(CALLS):
        kind = rng.choices(list(DAY), list(DAY.values()))[0]
        if kind == "add":
            engine.add(USER, next(fresh), check_duplicates=False)
        elif kind == "update":
            engine.update(USER, rng.choice(ids), metadata={"n": number})
        else:
            engine.get(USER, ids[min(int(rng.expovariate(5 / FAVOURITES)), FAVOURITES - 1)])
    hits, misses = engine.records.counts.hits - hits, engine.records.counts.misses - misses
    return f"{100 * hits / (hits + misses):.1f}%"


@contextlib.contextmanager
def engine_with(memories: int) -> Iterator[tuple[Engine, list[str]]]:
    """Open an engine on a new file with notes; their ids. Without the model: no vector takes part in this."""
    with TemporaryDirectory() as folder:
        settings = load_settings(db_path=Path(folder) / "memories.db", intelligence="basic", synchronous="normal")
        engine = Engine(settings)
        try:
            yield engine, [engine.add(USER, text, check_duplicates=False).added.id for text in notes(memories)]
        finally:
            engine.close()


def bars(figures: dict[str, Any]) -> list[Bar]:
    """Return the bars of this benchmark."""
    ms = figures["milliseconds"]
    shown = [("search_memory", SEARCH_SHARE), ("get_all_memories 10", 1.0), ("get_all_memories 100", 1.0)]
    return [
        at_most(
            f"{name} with the cache, × without",
            ms[f"{name}, with"] / ms[f"{name}, without"],
            limit,
            note=f"{ms[f'{name}, with']:.2f} ms, without {ms[f'{name}, without']:.2f} ms",
        )
        for name, limit in shown
    ]


def print_figures(figures: dict[str, Any]) -> None:
    """Print what is gained, tool by tool, and the rest below."""
    table = Table(title="repeated calls at the client, p50, ms", title_justify="left")
    for column in ("", "with", "without", "gained"):
        table.add_column(column, justify="right" if column else "left")
    ms = figures["milliseconds"]
    for name in sorted({name.rsplit(",", 1)[0] for name in ms}):
        there, without = ms[f"{name}, with"], ms[f"{name}, without"]
        table.add_row(name, f"{there:.2f}", f"{without:.2f}", f"{without - there:.2f}")
    Console(width=100).print(table)
    print(f"engine.get: {figures['engine']['hit']:.0f} µs from the cache, {figures['engine']['miss']:.0f} µs not")
    print(f"hits in a day: {figures['day']}; if every write counted: {figures['day, every write']}")


def main() -> None:
    """Read the command line, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=1000, help="notes in the store (default: 1000)")
    parser.add_argument("--rounds", type=int, default=60, help="calls of each tool (default: 60)")
    parser.add_argument("--json", type=Path, help="file for the figures")
    arguments = parser.parse_args()
    figures: dict[str, Any] = {"milliseconds": asyncio.run(measure(arguments.memories, arguments.rounds))}
    with engine_with(arguments.memories) as (engine, ids):
        figures["engine"] = engine_microseconds(engine, ids)
    with engine_with(arguments.memories) as (engine, ids):
        figures["day"] = day(engine, ids)
    with engine_with(arguments.memories) as (engine, ids), mock.patch.object(store, "edits", store.generation):
        figures["day, every write"] = day(engine, ids)
    print_figures(figures)
    print_bars(bars(figures))
    write_json(arguments.json, bars(figures), figures)


if __name__ == "__main__":
    main()

"""Does the memory of a server stay flat over tens of thousands of calls?

Method: a server over stdio with 10,000 notes. Then 20,000 operations by one client, drawn at random: 40 % searches that
were never asked before, 15 % repeated ones, 10 % adds and as many deletes, single reads and lists, 5 % updates.
Resident memory is read all along, and averaged over thirds: the first warms caches and lets the allocator find its
size, the last must not lie more than 3 % above the second.

    python -m benchmarks.endurance [--memories 10000] [--operations 20000] [--json FILE]
"""

import argparse
import asyncio
import itertools
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.bars import Bar, at_most, print_bars, write_json
from benchmarks.notes import notes, questions
from benchmarks.server import Server, serve

MEMORIES, OPERATIONS = 10_000, 20_000
READINGS = 300
FLAT = 1.03
USER = "default"
SHARES = {
    "search": 0.40,
    "search again": 0.15,
    "add": 0.10,
    "get": 0.10,
    "list": 0.10,
    "update": 0.05,
    "delete": 0.10,
}
BATCH = 1_000


def endless(make: Callable[..., list[str]]) -> Iterator[str]:
    """Return the texts of one batch after the other, each with a seed of its own."""
    return itertools.chain.from_iterable(make(BATCH, seed=seed) for seed in itertools.count(100))


def thirds(readings: Sequence[float]) -> tuple[float, float, float]:
    """Return the means of the first, second and last third; what is left over counts to the last."""
    size = len(readings) // 3
    first, second, last = readings[:size], readings[size : 2 * size], readings[2 * size :]
    return statistics.fmean(first), statistics.fmean(second), statistics.fmean(last)


async def work(server: Server, operations: int) -> dict[str, Any]:
    """Do the operations; return the readings of resident memory and what was done how often."""
    rng = random.Random(0)
    ids = [one["id"] for one in (await server.call("get_all_memories", limit=500))["memories"]]
    fresh, asked = endless(notes), endless(questions)
    recent: list[str] = [next(asked)]
    process = server.process()
    readings, done = [process.memory_info().rss / 2**20], Counter[str]()
    names, weights = list(SHARES), list(SHARES.values())
    for number, name in enumerate(rng.choices(names, weights, k=operations), 1):
        done[name] += 1
        match name:
            case "search":
                recent = [*recent[-49:], next(asked)]
                await server.call("search_memory", query=recent[-1])
            case "search again":
                await server.call("search_memory", query=rng.choice(recent))
            case "add":
                added = await server.call("add_memory", content=next(fresh))
                if not added["duplicate"]:
                    ids.append(added["memory_id"])
            case "get":
                await server.call("get_memory", memory_id=rng.choice(ids))
            case "list":
                await server.call("get_all_memories", limit=rng.choice((10, 50, 100)), offset=rng.randrange(500))
            case "update":
                await server.call("update_memory", memory_id=rng.choice(ids), content=next(fresh))
            case "delete":
                await server.call("delete_memory", memory_id=ids.pop(rng.randrange(len(ids))))
        if number % max(1, operations // READINGS) == 0:
            readings.append(process.memory_info().rss / 2**20)
    return {"readings_mb": readings, "done": dict(done)}


async def measure(memories: int, operations: int) -> dict[str, Any]:
    """Fill a server, work it and return the figures."""
    async with serve() as server:
        await server.import_items([{"content": text} for text in notes(memories)], USER)
        await server.wait_indexed()
        began = time.perf_counter()
        figures = await work(server, operations)
        figures["seconds"] = time.perf_counter() - began
    first, second, last = thirds(figures["readings_mb"][1:])
    return {**figures, "memories": memories, "thirds_mb": {"first": first, "second": second, "last": last}}


def bars(figures: dict[str, Any]) -> list[Bar]:
    """Return the bar of this benchmark."""
    mb = figures["thirds_mb"]
    operations = sum(figures["done"].values())
    ratio = mb["last"] / mb["second"]
    note = f"{mb['second']:.0f} and {mb['last']:.0f} MB"
    return [at_most(f"resident over {operations:,} operations, last third / second", ratio, FLAT, "×", note)]


def main() -> None:
    """Read the command line, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=MEMORIES, help=f"notes in the store (default: {MEMORIES:,})")
    parser.add_argument("--operations", type=int, default=OPERATIONS, help=f"calls (default: {OPERATIONS:,})")
    parser.add_argument("--json", type=Path, help="file for the figures")
    arguments = parser.parse_args()
    figures = asyncio.run(measure(arguments.memories, arguments.operations))
    readings = figures["readings_mb"]
    middle = readings[len(readings) // 2]
    print(
        f"resident: start {readings[0]:.1f} MB, middle {middle:.1f}, end {readings[-1]:.1f}; most {max(readings):.1f}"
    )
    print(f"{sum(figures['done'].values()):,} operations in {figures['seconds']:.0f} s: {figures['done']}")
    print_bars(bars(figures))
    write_json(arguments.json, bars(figures), figures)


if __name__ == "__main__":
    main()

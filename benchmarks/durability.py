"""Is everything that was acknowledged still there when the server is killed at a random moment?

Method: a client adds notes, one after the other and in bursts of up to eight at once; after a random time the server
gets SIGKILL. A copy of the file is then opened with SQLite: every id that was ever acknowledged must be there with
its exact text. The next server starts on the same file, reads back what the last one acknowledged, and the stream
goes on. After the last kill a server must be able to index all of it; SQLite's integrity_check, the keyword index's
own check and a keyword search for each note (a server without a model) end the run.

Bars: nothing lost, nothing altered, nothing damaged, nothing left without a vector, nothing that search misses.

    python -m benchmarks.durability [--kills 50] [--seed 0] [--json FILE]
"""

import argparse
import asyncio
import contextlib
import random
import secrets
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
from mcp import MCPError

from benchmarks.bars import Bar, at_most, print_bars, write_json
from benchmarks.notes import notes
from benchmarks.server import Server, serve
from r3_lite.db import Database

LONGEST_STREAM = 1.5
"""Seconds of adding after which a server is killed at the latest."""
LARGEST_BURST = 8
AFTER_KILL = 30.0
"""Seconds within which calls to a dead server must have failed."""


@dataclass(slots=True)
class Tally:
    """What was acknowledged, id → text, and what was found to be wrong."""

    acknowledged: dict[str, str] = field(default_factory=dict)
    unanswered: int = 0
    lost: set[str] = field(default_factory=set)
    altered: set[str] = field(default_factory=set)


async def stream(server: Server, tally: Tally, texts: list[str], rng: random.Random) -> None:
    """Add notes until the server dies. After the first few every third waits for its vector too.

    Raises ToolError when a living server refuses a note.
    """

    async def add(text: str, patient: bool) -> None:
        tally.unanswered += 1
        with contextlib.suppress(MCPError):  # the connection was closed
            added = await server.call("add_memory", **{"content": text, "async": not patient})
            tally.acknowledged[added["memory_id"]] = text
            tally.unanswered -= 1

    count = 0
    while server.process_runs():
        size = rng.choice((1, 1, 1, rng.randint(2, LARGEST_BURST)))
        count += size
        await asyncio.gather(*(add(texts.pop(), count > 10 and rng.random() < 1 / 3) for _ in range(size)))


async def one_life(home: Path, tally: Tally, texts: list[str], rng: random.Random, last: dict[str, str]) -> None:
    """Start a server, read back what the last one acknowledged, add new notes, kill it at a random moment."""
    async with serve(home) as server:
        for memory_id, text in last.items():
            if (await server.call("get_memory", memory_id=memory_id))["content"] != text:
                tally.altered.add(memory_id)
        await server.call("sync_status")
        adding = asyncio.create_task(stream(server, tally, texts, rng))
        await asyncio.sleep(rng.uniform(0, LONGEST_STREAM))
        server.process().kill()
        await asyncio.wait_for(adding, AFTER_KILL)


def compare(path: Path, tally: Tally) -> None:
    """Hold every acknowledged note against a copy of the file and its log: recovery is left to the next server."""
    with TemporaryDirectory() as folder:
        for file in path.parent.glob(path.name + "*"):
            if not file.name.endswith("-shm"):
                shutil.copy(file, folder)
        connection = apsw.Connection(str(Path(folder) / path.name))
        stored = dict(connection.execute("SELECT id, content FROM memories"))
        connection.close()
    tally.lost |= tally.acknowledged.keys() - stored.keys()
    tally.altered |= {i for i, text in tally.acknowledged.items() if i in stored and stored[i] != text}


def faults(path: Path) -> list[str]:
    """Return what SQLite's integrity_check and the keyword index's own check find wrong."""
    connection = Database(path).connection()
    found = [row[0] for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
    try:
        connection.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")
    except apsw.CorruptError:
        found.append("the keyword index does not match the memories")
    connection.close()
    return found


async def missed_by_keyword(home: Path, acknowledged: dict[str, str]) -> int:
    """Return how many notes a search for their one unique word does not find, without any model."""
    missed = 0
    async with serve(home, intelligence="basic") as server:
        for memory_id, text in acknowledged.items():
            found = await server.call("search_memory", query=text.split()[-1], limit=3)
            missed += memory_id not in [hit["id"] for hit in found["results"]]
    return missed


async def measure(kills: int, seed: int) -> dict[str, Any]:
    """Run the lives, then the final checks; return the counts."""
    rng = random.Random(seed)
    # A word that is in no other note, for the keyword search; blanks and signs, for the exact comparison.
    texts = [f"{note}\n\tkept – “as it is”  z{secrets.token_hex(6)}" for note in notes(400 * kills, seed)]
    tally = Tally()
    last: dict[str, str] = {}
    with TemporaryDirectory() as folder:
        home = Path(folder)
        for _ in range(kills):
            before = set(tally.acknowledged)
            await one_life(home, tally, texts, rng, last)
            last = {i: text for i, text in tally.acknowledged.items() if i not in before}
            compare(home / "memories.db", tally)
        async with serve(home) as server:
            await server.call("search_memory", query="everything")
            await server.wait_indexed()
            health = await server.call("health_check")
        damaged = faults(home / "memories.db")
        missed = await missed_by_keyword(home, tally.acknowledged)
        return {
            "kills": kills,
            "acknowledged": len(tally.acknowledged),
            "stored": health["counts"]["memories"],
            "in_flight_at_a_kill": tally.unanswered,
            "lost": len(tally.lost),
            "altered": len(tally.altered),
            "faults": damaged,
            "without_vector": health["index"]["without_vector"],
            "missed_by_keyword": missed,
            "health": health["status"],
        }


def bars(figures: dict[str, Any]) -> list[Bar]:
    """Return the bars of this benchmark."""
    return [
        at_most(
            f"acknowledged notes lost in {figures['kills']} kills",
            figures["lost"],
            0,
            note=f"of {figures['acknowledged']:,}; {figures['in_flight_at_a_kill']} calls were in flight",
        ),
        at_most("acknowledged notes altered", figures["altered"], 0),
        at_most("faults found in the file", len(figures["faults"]), 0),
        at_most("memories without a vector after a restart", figures["without_vector"], 0),
        at_most("notes that keyword search misses", figures["missed_by_keyword"], 0),
    ]


def main() -> None:
    """Read the command line, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50, help="how often the server is killed (default: 50)")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments (default: 0)")
    parser.add_argument("--json", type=Path, help="file for the figures")
    arguments = parser.parse_args()
    figures = asyncio.run(measure(arguments.kills, arguments.seed))
    print(figures)
    print_bars(bars(figures))
    write_json(arguments.json, bars(figures), figures)


if __name__ == "__main__":
    main()

"""What do search, add, list and delete cost as a store grows?

Method: stores of made-up notes are written straight through the store's own functions, their vectors drawn between
the vectors of real notes (a point up to 40 % of the way from one to another, plus noise), so that a large store takes
minutes and its vectors crowd as real ones do. 90 % of the memories belong to one user, ten others have 1 % each.
An engine in this process answers; the embedding of each query is known beforehand, so that times are what the store
costs above it: a search of the large user, of a small one, and of the large one with a filter that keeps 1 %, in turn.
Recall is the share of the 20 nearest vectors, found by comparing all, that the search by sign bits returns. Resident
memory is that of a real server after 20 searches of the file.

A million memories take about half an hour to write and 5 GB on disk, so they are measured on request only. With
`--keep` stores stay in a folder and are used again: empty it when notes, model or schema change.

Bars: search above the embedding of the query (p50) at most 6 ms at 10,000, 15 at 100,000 and 60 at 1,000,000 memories,
not slower with the filter; recall at least .99; at most 300 MB resident at 100,000.

    python -m benchmarks.scale [--sizes 1000,10000,100000] [--keep FOLDER] [--json FILE]
"""

import argparse
import asyncio
import itertools
import json
import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.bars import Bar, at_least, at_most, print_bars, write_json
from benchmarks.notes import notes, questions
from benchmarks.server import serve
from r3_lite import graph, store, vectors
from r3_lite.engine import Engine
from r3_lite.extract import Extraction
from r3_lite.jobs import Job
from r3_lite.scope import Scope
from r3_lite.settings import load_settings
from r3_lite.store import NewMemory

# The graph is measured apart: here nothing is left to the background worker.
NOTHING_FOUND = Extraction((), (), (), "rules+head")
SIZES = (1_000, 10_000, 100_000)
BASE_NOTES = 2_000
LARGE, SMALL = "large", "small-0"
SMALL_USERS = 10
TOPICS = 100
NEAREST = 20
CALLS = 30
BATCH = 1_000
SEARCH, FILTERED, SMALL_SEARCH = "search", "search, a filter keeps 1 %", "search of a small user"
SEARCH_MS = {10_000: 6.0, 100_000: 15.0, 1_000_000: 60.0}
RESIDENT_MB = {100_000: 300.0}
RECALL = 0.99

Matrix = NDArray[np.float32]
Cost = dict[str, float]
"""Medians: `ms` on the clock and `cpu_ms` of the calling thread alone, which a busy machine disturbs less."""


def user_of(number: int) -> str:
    """Return the owner of a note: nine of ten belong to one user, the rest to ten others in turn."""
    return LARGE if number % 10 else f"small-{number // 10 % SMALL_USERS}"


def draw_vectors(base: Matrix, count: int, rng: np.random.Generator) -> Iterator[Matrix]:
    """Yield `count` unit vectors in batches: between two rows of `base`, with noise a tenth of their length."""
    for start in range(0, count, BATCH):
        size = min(BATCH, count - start)
        one, other = (base[rng.integers(len(base), size=size)] for _ in range(2))
        share = rng.uniform(0, 0.4, (size, 1)).astype(np.float32)
        drawn = one + share * (other - one)
        drawn += rng.normal(0, 0.1 / base.shape[1] ** 0.5, drawn.shape).astype(np.float32)
        yield drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def fill(engine: Engine, base: Matrix, count: int) -> float:
    """Write `count` notes with their vectors, as the tools would; return the seconds it took.

    Holds a batch of notes in memory at a time.
    """
    began = time.perf_counter()
    space = engine.indexer.ensure_space()
    assert space is not None
    batches = draw_vectors(base, count, np.random.default_rng(0))
    for start, drawn in zip(range(0, count, BATCH), batches, strict=True):
        texts = notes(len(drawn), seed=start)
        with engine.database.write() as connection:
            done = {}
            for number, (text, vector) in enumerate(zip(texts, drawn, strict=True), start):
                new = NewMemory(user_of(number), text, {"topic": number // 10 % TOPICS})
                added = store.insert(connection, new, check_duplicates=False)
                job = Job(added.seq, new.user_id, new.content, embed=True, extract=True)
                done[job] = [vector.astype("<f4").tobytes()]
            vectors.store_vectors(connection, space, done)
            for job in done:
                graph.write(connection, job, NOTHING_FOUND, "rules+head", engine.extractor.version_of("rules+head"))
    return time.perf_counter() - began


def nearest_of_all(blocks: Iterable[tuple[Sequence[int], Matrix]], queries: Matrix) -> list[set[int]]:
    """Return the numbers of the NEAREST rows of each query, by comparing every row of (numbers, unit rows) blocks."""
    best: list[list[tuple[float, int]]] = [[] for _ in queries]
    for numbers, rows in blocks:
        for kept, cosines in zip(best, queries @ rows.T, strict=True):
            kept += [(float(cosines[row]), numbers[row]) for row in np.argsort(-cosines)[:NEAREST]]
            kept.sort(reverse=True)
            del kept[NEAREST:]
    return [{number for _, number in kept} for kept in best]


def stored_vectors(connection: apsw.Connection, user: str) -> Iterator[tuple[list[int], Matrix]]:
    """Yield a user's memories and their vectors in blocks."""
    cursor = connection.execute(
        "SELECT m.seq, c.embedding FROM chunks AS c JOIN memories AS m ON m.seq = c.memory WHERE m.user_id = ?", (user,)
    )
    while block := list(itertools.islice(cursor, 10 * BATCH)):
        yield [seq for seq, _ in block], np.stack([np.frombuffer(blob, "<f4") for _, blob in block])


def recall(engine: Engine, queries: Sequence[str]) -> float:
    """Return which share of the truly nearest memories of the large user the search by sign bits finds."""
    connection, space = engine.database.connection(), engine.indexer.space
    assert space is not None
    asked = np.stack([engine.encoder.embed_query(query) for query in queries])
    shares = []
    for vector, best in zip(asked, nearest_of_all(stored_vectors(connection, LARGE), asked), strict=True):
        found = vectors.nearest(connection, engine.codes, space, vector.tobytes(), Scope(connection, LARGE), NEAREST)
        shares.append(len(best & {seq for seq, _ in found[:NEAREST]}) / len(best))
    return statistics.fmean(shares)


def cost(call: Callable[[int], Any]) -> Cost:
    """Return the medians of a call, given 0, 1, … CALLS - 1."""
    return costs_in_turn({"": call})[""]


def costs_in_turn(calls: Mapping[str, Callable[[int], Any]]) -> dict[str, Cost]:
    """Return the medians of several calls that take turns, so that other work on the machine falls upon all alike."""
    walls, cpus = ({name: list[float]() for name in calls} for _ in range(2))
    for number in range(CALLS):
        for name, call in calls.items():
            wall, cpu = time.perf_counter(), time.thread_time()
            call(number)
            walls[name].append((time.perf_counter() - wall) * 1000)
            cpus[name].append((time.thread_time() - cpu) * 1000)
    return {name: {"ms": statistics.median(walls[name]), "cpu_ms": statistics.median(cpus[name])} for name in calls}


def build(home: Path, base: Matrix, size: int) -> float:
    """Write a store of `size` notes into a folder, if there is none that is whole; return the seconds it took once."""
    whole = home / "built.json"
    if whole.exists():
        return float(json.loads(whole.read_text(encoding="utf-8"))["seconds"])
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    engine = Engine(load_settings(db_path=home / "memories.db"))
    try:
        seconds = fill(engine, base, size)
    finally:
        engine.close()
    whole.write_text(json.dumps({"seconds": seconds}), encoding="utf-8")
    return seconds


def measure(size: int, base: Matrix, home: Path) -> dict[str, Any]:
    """Build a store of `size` notes in a folder and return what calls cost, and what the store takes."""
    path = home / "memories.db"
    build_seconds = build(home, base, size)
    engine = Engine(load_settings(db_path=path))
    queries, fresh = questions(CALLS), notes(CALLS, seed=1)
    try:
        engine.encoder.load()
        engine.indexer.ensure_space()
        for query in queries:
            engine.encoder.embed_query(query)
        engine.search(LARGE, queries[0])
        costs = costs_in_turn(
            {
                SEARCH: lambda i: engine.search(LARGE, queries[i]),
                FILTERED: lambda i: engine.search(LARGE, queries[i], metadata_filter={"topic": 7}),
                SMALL_SEARCH: lambda i: engine.search(SMALL, queries[i]),
            }
        )
        ids: list[str] = []
        costs["add"] = cost(lambda i: ids.append(engine.add(LARGE, fresh[i]).added.id))
        while engine.pending()[0]["pending"]:
            time.sleep(0.1)
        last_page = int(size * 0.9) - 100
        # What was just added is in the cache.
        engine.records.forget(LARGE)
        costs["get"] = cost(lambda i: engine.get(LARGE, ids[i]))
        costs["list of 100"] = cost(lambda i: engine.page(LARGE, limit=100, offset=0))
        costs["list of 100, last page"] = cost(lambda i: engine.page(LARGE, limit=100, offset=last_page))
        costs["delete"] = cost(lambda i: engine.delete(LARGE, ids[i]))
        found = recall(engine, queries)
    finally:
        engine.close()
    return {
        "memories": size,
        "costs": costs,
        "recall@20": found,
        "build_seconds": build_seconds,
        "file_mb": path.stat().st_size / 2**20,
        "server_mb": asyncio.run(_resident(home, queries[:20])),
    }


def bars(columns: Sequence[dict[str, Any]]) -> list[Bar]:
    """Return the bars of the sizes that have any."""
    made = []
    for column in columns:
        size, costs = column["memories"], column["costs"]
        if size in SEARCH_MS:
            search, filtered = costs[SEARCH]["ms"], costs[FILTERED]["ms"]
            cpu = f"of processor time {costs[SEARCH]['cpu_ms']:.1f}"
            made.append(at_most(f"search above embedding, p50, {size:,}", search, SEARCH_MS[size], "ms", cpu))
            made.append(at_most(f"the same, a filter keeps 1 %, {size:,}", filtered, search, "ms", "not slower"))
            made.append(at_least(f"recall@20 against exact search, {size:,}", column["recall@20"], RECALL))
        if size in RESIDENT_MB:
            made.append(at_most(f"resident, {size:,}", column["server_mb"], RESIDENT_MB[size], "MB"))
    return made


async def _resident(home: Path, queries: Sequence[str]) -> float:
    async with serve(home) as server:
        await server.call("search_memory", query="everything", user_id=LARGE)
        await server.wait_indexed()
        for query in queries:
            await server.call("search_memory", query=query, user_id=LARGE)
        return float(server.process().memory_info().rss / 2**20)


def print_columns(columns: Sequence[dict[str, Any]]) -> None:
    """Print one column per size."""
    table = Table(title="ms above the embedding of the query (CPU ms of the thread)", title_justify="left")
    table.add_column("memories")
    for column in columns:
        table.add_column(f"{column['memories']:,}", justify="right")
    for name in columns[0]["costs"]:
        costs = [column["costs"][name] for column in columns]
        table.add_row(name, *(f"{one['ms']:.2f} ({one['cpu_ms']:.2f})" for one in costs))
    for name, digits in (("recall@20", 3), ("build_seconds", 0), ("file_mb", 0), ("server_mb", 0)):
        table.add_row(name, *(f"{column[name]:,.{digits}f}" for column in columns))
    Console(width=100).print(table)


def main() -> None:
    """Read the command line, measure each size, print one column per size and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--sizes",
        type=lambda text: tuple(int(part) for part in text.split(",")),
        default=SIZES,
        help="numbers of memories (default: 1000,10000,100000)",
    )
    parser.add_argument("--keep", type=Path, help="folder for the stores, which are used again")
    parser.add_argument("--json", type=Path, help="file for the figures")
    arguments = parser.parse_args()
    columns = []
    with TemporaryDirectory() as folder:
        engine = Engine(load_settings(db_path=Path(folder) / "unused.db"))
        engine.encoder.load()
        base = np.concatenate([rows[:1] for rows in engine.encoder.embed_texts(notes(BASE_NOTES, seed=2))])
    for size in arguments.sizes:
        with TemporaryDirectory() as folder:
            columns.append(measure(size, base, (arguments.keep or Path(folder)).resolve() / str(size)))
    print_columns(columns)
    if bars(columns):
        print_bars(bars(columns))
    write_json(arguments.json, bars(columns), {"sizes": columns})


if __name__ == "__main__":
    main()

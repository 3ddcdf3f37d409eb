"""What do search, add, list and delete cost as a store grows?

Method: stores of made-up notes are written straight through the store's own functions, their vectors drawn between
the vectors of real notes (a point up to 40 % of the way from one to another, plus noise), so that a large store takes
minutes and its vectors crowd as real ones do. 90 % of the memories belong to one user, ten others have 1 % each.
An engine in this process answers; the embedding of each query is known beforehand, so that times are what the store
costs above it: a search of the large user, of a small one, and of the large one with a filter that keeps 1 %. Recall is
the share of the 20 nearest vectors, found by comparing all, that the search by sign bits returns. Resident memory is
that of a real server after 20 searches of the file.

    python -m benchmarks.scale [--sizes 1000,10000,100000] [--json FILE]
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from benchmarks.bars import write_json
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
    """Write `count` notes with their vectors, as the tools would; return the seconds it took."""
    began = time.perf_counter()
    texts = notes(count)
    space = engine.indexer.ensure_space()
    assert space is not None
    batches = draw_vectors(base, count, np.random.default_rng(0))
    for start, drawn in zip(range(0, count, BATCH), batches, strict=True):
        with engine.database.write() as connection:
            done = {}
            for number, vector in enumerate(drawn, start):
                new = NewMemory(user_of(number), texts[number], {"topic": number // 10 % TOPICS})
                added = store.insert(connection, new, check_duplicates=False)
                job = Job(added.seq, new.user_id, new.content, embed=True, extract=True)
                done[job] = [vector.astype("<f4").tobytes()]
            vectors.store_vectors(connection, space, done)
            for job in done:
                graph.write(connection, job, NOTHING_FOUND, "rules+head", engine.extractor.version_of("rules+head"))
    return time.perf_counter() - began


def recall(engine: Engine, queries: Sequence[str]) -> float:
    """Return which share of the truly nearest memories of the large user the search by sign bits finds."""
    connection, space = engine.database.connection(), engine.indexer.space
    assert space is not None
    rows: list[Any] = connection.execute(
        "SELECT m.seq, c.embedding FROM chunks AS c JOIN memories AS m ON m.seq = c.memory WHERE m.user_id = ?",
        (LARGE,),
    ).fetchall()
    seqs = np.array([seq for seq, _ in rows])
    matrix = np.stack([np.frombuffer(blob, "<f4") for _, blob in rows])
    shares = []
    for query in queries:
        vector = engine.encoder.embed_query(query)
        best = np.argsort(-(matrix @ vector))[:NEAREST]
        found = vectors.nearest(connection, engine.codes, space, vector.tobytes(), Scope(connection, LARGE), NEAREST)
        shares.append(len(set(seqs[best].tolist()) & {seq for seq, _ in found[:NEAREST]}) / len(best))
    return statistics.fmean(shares)


def cost(call: Callable[[int], Any]) -> Cost:
    """Return the medians of a call, given 0, 1, … CALLS - 1."""
    walls, cpus = [], []
    for number in range(CALLS):
        wall, cpu = time.perf_counter(), time.thread_time()
        call(number)
        walls.append((time.perf_counter() - wall) * 1000)
        cpus.append((time.thread_time() - cpu) * 1000)
    return {"ms": statistics.median(walls), "cpu_ms": statistics.median(cpus)}


def measure(size: int, base: Matrix, home: Path) -> dict[str, Any]:
    """Build a store of `size` notes in a folder and return what calls cost, and what the store takes."""
    path = home / "memories.db"
    engine = Engine(load_settings(db_path=path))
    queries, fresh = questions(CALLS), notes(CALLS, seed=1)
    try:
        engine.encoder.load()
        build_seconds = fill(engine, base, size)
        for query in queries:
            engine.encoder.embed_query(query)

        def search(user: str, **more: Any) -> Cost:
            return cost(lambda i: engine.search(user, queries[i], **more))

        costs = {
            "search": search(LARGE),
            "search, a filter keeps 1 %": search(LARGE, metadata_filter={"topic": 7}),
            "search of a small user": search(SMALL),
        }
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
    parser.add_argument("--json", type=Path, help="file for the figures")
    arguments = parser.parse_args()
    columns = []
    with TemporaryDirectory() as folder:
        engine = Engine(load_settings(db_path=Path(folder) / "unused.db"))
        engine.encoder.load()
        base = np.concatenate([rows[:1] for rows in engine.encoder.embed_texts(notes(BASE_NOTES, seed=2))])
    for size in arguments.sizes:
        with TemporaryDirectory() as folder:
            columns.append(measure(size, base, Path(folder)))
    print_columns(columns)
    write_json(arguments.json, [], {"sizes": columns})


if __name__ == "__main__":
    main()

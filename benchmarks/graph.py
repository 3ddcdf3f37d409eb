"""How long do questions to a large knowledge graph take?

Method: 10,000 entities and 50,000 edges of a power law (every entity has relations, a few have thousands) are written
as one user's memories. `find_connections` of depth 5 and `get_knowledge_graph` are asked for entities drawn by how many
relations they have, so that hubs are among them; the clock runs around what the tools call. The first question after a
write loads the graph anew and is reported apart.

Bar: find_connections, depth 5, p95 <= 100 ms.

    python -m benchmarks.graph [--json FILE]
"""

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

from benchmarks.bars import at_most, print_bars, write_json
from r3_lite import graph, jobs, knowledge, store
from r3_lite.embed_models import BundledModel
from r3_lite.engine import Engine
from r3_lite.extract import Entity, Extraction, Relation
from r3_lite.settings import load_settings
from r3_lite.store import NewMemory

ENTITIES, EDGES = 10_000, 50_000
EXPONENT = 0.8
"""The entity of rank r is the target of an edge with a weight of r to this power, inverted."""
EDGES_PER_MEMORY = 5
CALLS = 200
DEPTH = 5
P95_MS = 100
USER = "someone"

Link = tuple[int, str, int]


def power_law(chance: random.Random) -> list[Link]:
    """Return distinct links: the sources evenly, the targets by a power law."""
    weights = list(accumulate((rank + 1) ** -EXPONENT for rank in range(ENTITIES)))
    links: set[Link] = {(n, "KNOWS", (n + 1) % ENTITIES) for n in range(0, ENTITIES, 2)}
    while len(links) < EDGES:
        source, (target,) = chance.randrange(ENTITIES), chance.choices(range(ENTITIES), cum_weights=weights)
        if source != target:
            links.add((source, chance.choice(knowledge.RELATIONS), target))
    return sorted(links)


def fill(engine: Engine, links: list[Link]) -> None:
    """Write the links as what memories say, a few in each."""
    version = engine.extractor.version_of("rules+head")
    for start in range(0, len(links), 5_000):
        with engine.database.write() as connection:
            for first in range(start, min(start + 5_000, len(links)), EDGES_PER_MEMORY):
                part = links[first : first + EDGES_PER_MEMORY]
                name = {n: Entity("people", f"Person {n}", n, n + 1, 1.0) for a, _, b in part for n in (a, b)}
                relations = tuple(Relation(name[a], kind, name[b], 1.0) for a, kind, b in part)
                seq = store.insert(connection, NewMemory(USER, f"memory {first}"), check_duplicates=False).seq
                job = jobs.of_memory(connection, None, seq)
                assert job is not None
                graph.write(
                    connection,
                    job,
                    Extraction(tuple(name.values()), relations, (), "rules+head"),
                    "rules+head",
                    version,
                )


def timed(call: Callable[[], object]) -> float:
    """Return how many milliseconds a call takes."""
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000


def figures(times: list[float]) -> dict[str, float]:
    """Return the median, the 95th percentile and the greatest."""
    return {
        "median": round(statistics.median(times), 1),
        "p95": round(statistics.quantiles(times, n=20)[-1], 1),
        "most": round(max(times), 1),
    }


def main() -> None:
    """Build the graph, ask, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="file for the figures")
    arguments = parser.parse_args()
    chance = random.Random(0)
    links = power_law(chance)
    ends = [f"person {end}" for source, _, target in links for end in (source, target)]
    with tempfile.TemporaryDirectory() as folder:
        engine = Engine(load_settings(db_path=Path(folder) / "graph.db", synchronous="normal", intelligence="full"))
        engine.encoder._settle(BundledModel())
        engine.indexer.stop()  # the clock shall run for the questions alone
        fill(engine, links)
        pairs = [chance.sample(ends, 2) for _ in range(CALLS)]

        def connect(one: str, other: str | None) -> float:
            return timed(lambda: knowledge.connections(engine, USER, one, other, DEPTH))

        def look(name: str | None) -> float:
            return timed(lambda: knowledge.neighbourhood(engine, USER, limit=100, entity_name=name))

        def after_a_write(one: str, other: str) -> float:
            with engine.database.write() as connection:
                connection.execute("UPDATE users SET graph = graph + 1")
            return connect(one, other)

        connect(*pairs[0])
        paths = figures([connect(one, other) for one, other in pairs])
        reach = figures([connect(one, None) for one, _ in pairs])
        first = figures([after_a_write(one, other) for one, other in pairs[:20]])
        part = figures([look(one) for one, _ in pairs])
        overview = figures([look(None) for _ in range(20)])
        engine.close()
    measured = {
        f"find_connections, depth {DEPTH}, two entities": paths,
        f"find_connections, depth {DEPTH}, without a target": reach,
        f"find_connections, depth {DEPTH}, first after a write": first,
        "get_knowledge_graph, one name": part,
        "get_knowledge_graph, overview": overview,
    }
    for name, values in measured.items():
        print(f"{name}: median {values['median']} ms, p95 {values['p95']} ms, most {values['most']} ms")
    bars = [at_most(f"{name}, p95", values["p95"], P95_MS, "ms") for name, values in list(measured.items())[:2]]
    print_bars(bars, title=f"{ENTITIES:,} entities, {len(links):,} edges")
    write_json(arguments.json, bars, measured)


if __name__ == "__main__":
    main()

"""Are duplicates found, and nothing but duplicates; and how long does it take on a large store?

Method: pairs of texts, each marked as the same or not, go through the rule that decides about automatic
merging: a set of our own (`wordings.json`: one fact changed in many phrasings, and harmless rewordings), and a
file of pairs where one is given: a JSON list of {"a", "b", "same", "kind"}. Precision is the share of the
merged pairs that are the same, recall the share of the same pairs that are merged.

Then stores of notes are made in which a tenth is a rewording of another, and two fifths come from one template with
other numbers, and a process of its own makes the plan and carries it out. The clock is processor time, since the
machine has other work; memory is the greatest resident size of that process.

Bars: no changed fact merged; with --data precision >= .99 and recall >= .90; the plan of 10,000 memories <= 3 s, of
100,000 <= 45 s, <= 500 MB.

    python -m benchmarks.duplicates [--data PAIRS] [--sizes 10000,100000] [--json FILE]
"""

import argparse
import json
import multiprocessing
import random
import resource
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.bars import Bar, at_least, at_most, print_bars, write_json
from r3_lite import merging, store
from r3_lite.db import Database
from r3_lite.dedupe import same_meaning
from r3_lite.store import NewMemory

OWN = Path(__file__).parent / "wordings.json"
SECONDS = {10_000: 3.0, 100_000: 45.0}
MEGABYTES = 500
USER = "someone"


def classify(pairs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return precision, recall, how many different pairs were merged, and the share merged of each kind."""
    merged = [same_meaning(pair["a"], pair["b"]) for pair in pairs]
    right = sum(pair["same"] for pair, one in zip(pairs, merged, strict=True) if one)
    kinds = Counter((pair["kind"], pair["same"]) for pair in pairs)
    hits = Counter((pair["kind"], pair["same"]) for pair, one in zip(pairs, merged, strict=True) if one)
    return {
        "pairs": len(pairs),
        "precision": right / max(sum(merged), 1),
        "recall": right / max(sum(pair["same"] for pair in pairs), 1),
        "wrong": sum(merged) - right,
        "merged": {
            f"{kind}{'' if same else ' (differs)'}": f"{hits[kind, same]} of {number}"
            for (kind, same), number in sorted(kinds.items())
        },
    }


def notes(size: int, seed: int = 5) -> list[str]:
    """Return notes: templates with other numbers and names, free words, and rewordings of earlier ones."""
    chance = random.Random(seed)
    texts: list[str] = []
    for _ in range(size):
        kind = chance.random()
        if texts and kind < 0.1:
            text = chance.choice(texts)
            texts.append(chance.choice([text.lower(), f"Note: {text}", f"FYI, {text}", f"{text}!"]))
        elif kind < 0.5:
            port = chance.randrange(8_000, 8_000 + max(50, size // 50))
            texts.append(f"The service {chance.randrange(50)} listens on port {port} in production")
        elif kind < 0.7:
            person, city = f"Person{chance.randrange(300)}", f"City{chance.randrange(200)}"
            texts.append(f"{person} lives in {city} since {chance.randrange(1990, 2026)} and works from home")
        else:
            words = [f"word{int(chance.paretovariate(0.6)) % 20_000}" for _ in range(chance.randint(6, 25))]
            texts.append(" ".join(words).capitalize())
    return texts


def _work(path: Path, results: "multiprocessing.Queue[dict[str, Any]]") -> None:
    database = Database(path, synchronous="normal")
    began, clock = time.process_time(), time.perf_counter()
    planned = merging.plan(database, USER, 0.85)
    plan_cpu, plan_seconds = time.process_time() - began, time.perf_counter() - clock
    clock = time.perf_counter()
    merged = merging.carry_out(database, USER, planned)
    results.put(
        {
            "plan_cpu_seconds": round(plan_cpu, 2),
            "plan_seconds": round(plan_seconds, 2),
            "merge_seconds": round(time.perf_counter() - clock, 2),
            "groups": len(planned.groups),
            "removed": merged.deleted,
            "look_alikes": planned.alike,
            "complete": planned.complete,
            "megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        }
    )
    database.close()


def measure(size: int, folder: Path) -> dict[str, Any]:
    """Fill a file and return what planning and merging cost in a process of its own."""
    path = folder / f"{size}.db"
    database = Database(path, synchronous="normal")
    texts = notes(size)
    for start in range(0, size, 5_000):
        with database.write() as connection:
            for text in texts[start : start + 5_000]:
                store.insert(connection, NewMemory(USER, text), check_duplicates=False)
    database.close()
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[dict[str, Any]] = context.Queue()
    process = context.Process(target=_work, args=(path, results))
    process.start()
    figures = results.get()
    process.join()
    return figures


def main() -> None:
    """Read the command line, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a JSON list of pairs, besides our own")
    parser.add_argument("--sizes", default="10000,100000", help="numbers of memories (default: 10000,100000)")
    parser.add_argument("--json", type=Path, help="file for the figures")
    arguments = parser.parse_args()
    own = classify(json.loads(OWN.read_text(encoding="utf-8")))
    bars: list[Bar] = [
        at_most("changed facts merged, own pairs", own["wrong"], 0, note=f"{own['pairs']} pairs"),
        at_least("harmless rewordings merged, own pairs", round(own["recall"], 3), 0.9),
    ]
    figures: dict[str, Any] = {"own": own}
    if arguments.data:
        given = figures["given"] = classify(json.loads(arguments.data.read_text(encoding="utf-8")))
        bars += [
            at_least("precision, given pairs", round(given["precision"], 4), 0.99, note=f"{given['pairs']} pairs"),
            at_least("recall, given pairs", round(given["recall"], 4), 0.9),
        ]
        print(json.dumps(given["merged"], indent=2))
    for size in map(int, arguments.sizes.split(",")):
        with TemporaryDirectory() as folder:
            cost = figures[f"{size}"] = measure(size, Path(folder))
        print(f"{size:,} memories: {cost}")
        bars += [
            at_most(
                f"plan of {size:,} memories",
                cost["plan_cpu_seconds"],
                SECONDS.get(size, size * 4.5e-4),
                "s of processor",
            ),
            at_most(f"memory for {size:,} memories", cost["megabytes"], MEGABYTES, "MB"),
        ]
    print_bars(bars, title="Duplicates")
    write_json(arguments.json, bars, figures)


if __name__ == "__main__":
    main()

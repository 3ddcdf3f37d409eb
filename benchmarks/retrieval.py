"""Does search find the memories that answer a question?

Method: every LoCoMo turn is imported as one memory, every question is searched for (20 results), the turns named
as its evidence are what should come back. R@k is the share of a question's evidence among the first k results, a
mean over the questions of categories 1 to 4; adversarial questions (5) are reported apart. Each conversation is a
user of its own, with --pooled all are one user's.

Bars: R@5 >= 0.70, R@10 >= 0.80, nDCG@10 >= 0.61, R@10 of the adversarial questions >= 0.87; pooled R@10 >= 0.75;
server with its model at most 250 MB resident.

    python -m benchmarks.retrieval [--data FILE] [--pooled] [--in-process [--store FILE]] [--misses N] [--json FILE]
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from math import log2
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import locomo
from benchmarks.bars import Bar, at_least, at_most, print_bars, write_json
from benchmarks.locomo import ANSWERABLE, CATEGORIES, Conversation, Question
from benchmarks.server import ROOT, serve
from r3_lite.engine import Engine
from r3_lite.settings import load_settings
from r3_lite.text import text_hash

DATA = ROOT.parent / "shared" / "data" / "locomo" / "locomo_dev.json"
LIMIT = 20
RECALL_AT_5 = 0.70
RECALL_AT_10 = 0.80
NDCG_AT_10 = 0.61
ADVERSARIAL_AT_10 = 0.87
POOLED_AT_10 = 0.75
RESIDENT_MB = 250
POOLED_USER = "everyone"

Answer = list[str]
"""The turn ids of the results of one search, best first."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with what came back for it; `scores` by the name of the measure."""

    conversation: str
    question: Question
    answer: Answer
    scores: dict[str, float]


def scores(ranks: Sequence[int | None], cutoff: int = 10) -> dict[str, float]:
    """Return R@k, hit rates and nDCG@10 of one question from the places (0 first) of its gold turns.

    None is a gold turn that did not come back. nDCG has binary gains and the discount 1 / log2(place + 2).
    """
    found = [rank for rank in ranks if rank is not None]
    result: dict[str, float] = {}
    for k in (1, 5, 10, 20):
        within = sum(rank < k for rank in found)
        result[f"R@{k}"] = within / len(ranks)
        result[f"hit@{k}"] = float(within > 0)
    gain = sum(1 / log2(rank + 2) for rank in found if rank < cutoff)
    result["nDCG@10"] = gain / sum(1 / log2(place + 2) for place in range(min(cutoff, len(ranks))))
    result["MRR"] = 1 / (min(found) + 1) if found else 0.0
    return result


def gold_ranks(gold: Collection[str], answer: Sequence[str], twins: dict[str, str]) -> list[int | None]:
    """Return the place of each gold turn among the results.

    `twins` names for each turn the first turn with the same text: an import stores equal texts once, and
    whichever of them came back has answered.
    """
    place: dict[str, int] = {}
    for rank, turn in enumerate(answer):
        place.setdefault(twins[turn], rank)
    return [place.get(twins[turn]) for turn in sorted(gold)]


def find_twins(conversations: Iterable[Conversation]) -> dict[str, str]:
    """Return for each turn of one user the first turn that an import takes for the same text."""
    first: dict[str, str] = {}
    return {t.id: first.setdefault(text_hash(t.text), t.id) for c in conversations for t in c.turns}


def mean(rows: Sequence[Asked]) -> dict[str, float]:
    """Return the mean of each measure over questions; empty without any."""
    return {name: statistics.fmean(row.scores[name] for row in rows) for name in rows[0].scores} if rows else {}


async def ask_server(conversations: Sequence[Conversation], pooled: bool) -> tuple[list[Asked], dict[str, float]]:
    """Import into a server over stdio, wait for its index, ask everything; return the answers and what it took."""
    async with serve() as server:
        began = time.perf_counter()
        for conversation in conversations:
            user = POOLED_USER if pooled else conversation.id
            await server.import_items(locomo.import_items(conversation), user)
        await server.wait_indexed()
        indexed = time.perf_counter()

        async def search(user: str, query: str) -> Answer:
            found = await server.call("search_memory", query=query, user_id=user, limit=LIMIT)
            return [hit["metadata"]["dia_id"] for hit in found["results"]]

        asked = await ask(conversations, pooled, search)
        took = {"index_seconds": indexed - began, "ask_seconds": time.perf_counter() - indexed}
        return asked, {**took, "resident_mb": server.process().memory_info().rss / 2**20}


def ask_engine(
    conversations: Sequence[Conversation], pooled: bool, store: Path | None
) -> tuple[list[Asked], dict[str, float]]:
    """Do the same with an engine in this process. A `store` that exists already is asked as it is."""
    with tempfile.TemporaryDirectory() as folder:
        path = store or Path(folder) / "memories.db"
        filled = path.exists()
        engine = Engine(load_settings(db_path=path, import_roots=(Path(folder),), threads=2))
        try:
            began = time.perf_counter()
            engine.encoder.load()
            if not filled:
                for conversation in conversations:
                    file = Path(folder) / "import.json"
                    file.write_text(json.dumps(locomo.import_items(conversation)), encoding="utf-8")
                    engine.import_file(POOLED_USER if pooled else conversation.id, str(file))
            engine.start()
            while engine.pending()[0]["pending"]:
                time.sleep(0.2)
            indexed = time.perf_counter()

            async def search(user: str, query: str) -> Answer:
                found = engine.search(user, query, limit=LIMIT)
                return [hit.record.metadata["dia_id"] for hit in found.ranking.hits]

            asked = asyncio.run(ask(conversations, pooled, search))
            return asked, {"index_seconds": indexed - began, "ask_seconds": time.perf_counter() - indexed}
        finally:
            engine.close()


async def ask(
    conversations: Sequence[Conversation], pooled: bool, search: Callable[[str, str], Awaitable[Answer]]
) -> list[Asked]:
    """Search for every question and score what comes back."""
    asked = []
    everything = find_twins(conversations) if pooled else {}
    for conversation in conversations:
        twins = everything or find_twins([conversation])
        for question in conversation.questions:
            answer = await search(POOLED_USER if pooled else conversation.id, question.text)
            asked.append(Asked(conversation.id, question, answer, scores(gold_ranks(question.gold, answer, twins))))
    return asked


def summary(asked: Sequence[Asked]) -> dict[str, dict[str, float]]:
    """Return the means over all answerable questions, per category and per conversation."""
    answerable = [row for row in asked if row.question.category in ANSWERABLE]
    groups = {"all (1-4)": answerable}
    for number, name in CATEGORIES.items():
        groups[f"{number} {name}"] = [row for row in asked if row.question.category == number]
    for conversation in dict.fromkeys(row.conversation for row in asked):
        groups[conversation] = [row for row in answerable if row.conversation == conversation]
    return {name: {"questions": len(rows), **mean(rows)} for name, rows in groups.items() if rows}


def print_summary(groups: dict[str, dict[str, float]]) -> None:
    """Print one row per group of questions."""
    columns = ["R@1", "R@5", "R@10", "R@20", "hit@5", "hit@10", "nDCG@10", "MRR"]
    table = Table()
    table.add_column("")
    for column in ("questions", *columns):
        table.add_column(column, justify="right")
    for name, row in groups.items():
        table.add_row(name, f"{row['questions']:.0f}", *(f"{row[column]:.3f}" for column in columns))
    Console(width=120).print(table)


def print_misses(asked: Sequence[Asked], conversations: Sequence[Conversation], count: int) -> None:
    """Print questions without any gold turn among the first ten, the gold, and the three that came instead."""
    turns = {turn.id: turn for conversation in conversations for turn in conversation.turns}
    missed = [row for row in asked if row.question.category in ANSWERABLE and not row.scores["hit@10"]]
    # An even sample over the file, not the first conversation's only.
    for row in missed[:: max(1, len(missed) // count)][:count]:
        print(f"\n[{CATEGORIES[row.question.category]}] {row.question.text}")
        for label, ids in (("gold", sorted(row.question.gold)), ("came", row.answer[:3])):
            for turn in (turns[name] for name in ids):
                print(f"  {label} {turn.id} {turn.date:%Y-%m-%d} {turn.speaker}: {turn.text[:150]}")


def bars(groups: dict[str, dict[str, float]], took: dict[str, float], pooled: bool = False) -> list[Bar]:
    """Return the bars of this benchmark."""
    overall = groups["all (1-4)"]
    resident = at_most("server with model, resident", took.get("resident_mb"), RESIDENT_MB, "MB")
    if pooled:
        return [at_least("LoCoMo pooled R@10", overall["R@10"], POOLED_AT_10), resident]
    adversarial = groups.get("5 adversarial", {})
    return [
        at_least("LoCoMo R@5", overall["R@5"], RECALL_AT_5),
        at_least("LoCoMo R@10", overall["R@10"], RECALL_AT_10),
        at_least("LoCoMo nDCG@10", overall["nDCG@10"], NDCG_AT_10),
        at_least("LoCoMo adversarial R@10", adversarial.get("R@10"), ADVERSARIAL_AT_10),
        resident,
    ]


def main() -> None:
    """Read the command line, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="a LoCoMo file")
    parser.add_argument("--pooled", action="store_true", help="all conversations belong to one user")
    parser.add_argument("--in-process", action="store_true", help="ask the engine directly: quicker, same figures")
    parser.add_argument("--store", type=Path, help="with --in-process: keep the database here and use it again")
    parser.add_argument("--misses", type=int, default=0, metavar="N", help="show N questions that were missed")
    parser.add_argument("--json", type=Path, help="file for the figures")
    arguments = parser.parse_args()
    if not arguments.data.exists():
        print(f"skipped: no LoCoMo file at {arguments.data} (give one with --data)")
        write_json(arguments.json, [], {"skipped": "no LoCoMo file"})
        return
    conversations = locomo.load(arguments.data)
    if arguments.in_process:
        asked, took = ask_engine(conversations, arguments.pooled, arguments.store)
    else:
        asked, took = asyncio.run(ask_server(conversations, arguments.pooled))
    groups = summary(asked)
    print_summary(groups)
    print(", ".join(f"{name} {value:.1f}" for name, value in took.items()))
    print_bars(bars(groups, took, arguments.pooled))
    if arguments.misses:
        print_misses(asked, conversations, arguments.misses)
    figures: dict[str, Any] = {"data": arguments.data.name, "pooled": arguments.pooled, **took, "groups": groups}
    write_json(arguments.json, bars(groups, took, arguments.pooled), figures)


if __name__ == "__main__":
    main()

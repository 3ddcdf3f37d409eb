"""Does search find a note when it is asked for in other words, and does it show when no note answers?

Method: the notes of `plain_notes.json` (one worker's decisions, preferences, facts, instructions and values, some
corrected later, some differing from another in one detail) are imported for one user, and each question is searched
for. One note is right for each. No dialogue, no authors, no sessions. Questions that no note answers are asked too:
the best score of each should be below that of questions with an answer. Nothing is tuned on this set.

    python -m benchmarks.plain_notes [--misses] [--json FILE]
"""

import argparse
import asyncio
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bars import Bar, at_least, print_bars, write_json
from benchmarks.server import serve

DATA = Path(__file__).with_suffix(".json")
USER = "worker"
LIMIT = 10
# Floors that show when something breaks, below what was measured when the set was new.
RIGHT_FIRST = 0.45
WITHIN_3 = 0.70
WITHIN_10 = 0.88


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with the texts that came back, best first, the best score, and the place of the right one."""

    question: str
    right: str
    came: tuple[str, ...]
    best: float

    @property
    def place(self) -> int | None:
        """The place of the right note, 0 first; None where it did not come back."""
        return self.came.index(self.right) if self.right in self.came else None


def import_items(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the notes as import_memories takes them."""
    return [{"content": note["text"], "created_at": f"{note['day']}T09:00:00Z"} for note in data["notes"]]


def figures(asked: Sequence[Asked], unanswered: Sequence[float]) -> dict[str, float]:
    """Return the share of right notes in the first place, the first 3 and 10, the MRR, and how well scores part.

    `unanswered` are the best scores of questions that nothing answers. "told apart" is how often a question with an
    answer has the higher best score, over all pairs; .5 is chance.
    """
    places = [row.place for row in asked]
    shares = {f"R@{k}": statistics.fmean(place is not None and place < k for place in places) for k in (1, 3, LIMIT)}
    pairs = [(row.best > score) + (row.best == score) / 2 for row in asked for score in unanswered]
    return {
        **shares,
        "MRR": statistics.fmean(0.0 if place is None else 1 / (place + 1) for place in places),
        "median best score, answerable": statistics.median(row.best for row in asked),
        "median best score, unanswerable": statistics.median(unanswered),
        "told apart": statistics.fmean(pairs),
    }


async def ask(data: dict[str, Any]) -> tuple[list[Asked], list[float]]:
    """Import into a server over stdio, wait for its index and ask everything."""
    text = {note["id"]: note["text"] for note in data["notes"]}
    async with serve() as server:
        await server.import_items(import_items(data), USER)
        await server.wait_indexed()

        async def search(question: str) -> list[dict[str, Any]]:
            found = await server.call("search_memory", query=question, user_id=USER, limit=LIMIT)
            results: list[dict[str, Any]] = found["results"]
            return results

        asked = []
        for question in data["questions"]:
            hits = await search(question["question"])
            came = tuple(hit["memory"] for hit in hits)
            asked.append(Asked(question["question"], text[question["gold"]], came, hits[0]["score"] if hits else 0.0))
        unanswered = [await search(question) for question in data["unanswerable"]]
        return asked, [hits[0]["score"] if hits else 0.0 for hits in unanswered]


def bars(measured: dict[str, float]) -> list[Bar]:
    """Return the bars of this benchmark."""
    return [
        at_least("notes, right one first", measured["R@1"], RIGHT_FIRST),
        at_least("notes, right one in the first 3", measured["R@3"], WITHIN_3),
        at_least("notes, right one in the first 10", measured["R@10"], WITHIN_10),
    ]


def main() -> None:
    """Read the command line, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--misses", action="store_true", help="show the questions whose note did not come first")
    parser.add_argument("--json", type=Path, help="file for the figures")
    arguments = parser.parse_args()
    data = json.loads(DATA.read_text(encoding="utf-8"))
    asked, unanswered = asyncio.run(ask(data))
    measured = figures(asked, unanswered)
    for name, value in measured.items():
        print(f"{name:32} {value:.3f}")
    if arguments.misses:
        for row in (row for row in asked if row.place != 0):
            print(f"\n{row.question}\n  right, place {row.place}: {row.right}\n  first: {row.came[:1]}")
    print_bars(bars(measured))
    write_json(arguments.json, bars(measured), measured)


if __name__ == "__main__":
    main()

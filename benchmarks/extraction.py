"""How good and how fast extraction is: precision, recall and F1 of entities and relations, CPU time.

Method: every gold sentence is read as the product reads a memory. GOLD.jsonl holds one object a line: `text`,
`entities` [{text, type, start, end}], `relations` [{from, type, to}] and `ignore` (spans that count neither way). An
entity is right when its span and type are; a relation when both names and the type are (KNOWS has no direction). The
CPU time of `extract` above the encoder pass is measured on made-up memories of 5 to 60 words.

Bars: F1 of the four core types and of relations >= 0.93, <= 0.10 false hits per sentence without entities; <= 2 ms CPU
above the encoder pass, load <= 0.5 s.

    python -m benchmarks.extraction [--data GOLD.jsonl] [--rules] [--errors] [--json FILE]
"""

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.bars import at_least, at_most, print_bars, write_json
from benchmarks.notes import notes
from benchmarks.server import ROOT
from r3_lite.embed_models import BundledModel
from r3_lite.extract import Extraction, extract, join

DATA = ROOT.parent / "shared" / "data" / "ner" / "gold_dev.jsonl"
TYPES = ("people", "organizations", "technologies", "projects", "places", "dates")
CORE = TYPES[:4]
MEMORIES = 1_000
WORDS = (5, 60)
CORE_F1 = RELATIONS_F1 = 0.93
FALSE_HITS = 0.10
CPU_MS = 2.0
LOAD_SECONDS = 0.5

Passages = list[tuple[int, str, Any]]
"""Parts of a text: where each begins, its text, its word pieces or None."""

Encode = Callable[[str], Passages]
Key = tuple[Any, ...]


def main() -> None:
    """Measure, print tables, and write JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--rules", action="store_true", help="measure the rules alone")
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--errors", action="store_true", help="print what was missed or wrong")
    arguments = parser.parse_args()
    gold = [json.loads(line) for line in arguments.data.read_text(encoding="utf-8").splitlines() if line]
    encode = plain if arguments.rules else load_encoder()
    read(encode("Ada Warmup works for Acme."))
    load = load_time(encode)
    result = measure(gold, encode, show_errors=arguments.errors)
    cost = milliseconds([encode(text) for text in memories(MEMORIES)])
    print_table(result)
    bars = [
        at_least("entities of the four core types, F1", result["core"]["f1"], CORE_F1),
        at_least("relations, F1", result["relations"]["f1"], RELATIONS_F1),
        at_most("false hits per empty sentence", result["false_hits"], FALSE_HITS),
        at_most("CPU above the encoder pass, median", cost, CPU_MS, "ms", f"{MEMORIES:,} memories of 5 to 60 words"),
        at_most("load of word lists and head", load, LOAD_SECONDS, "s"),
    ]
    print_bars(bars)
    write_json(arguments.json, bars, {**result, "cpu_ms": cost, "load_seconds": load})


def plain(text: str) -> Passages:
    """Return a text as the rules alone read it."""
    return [(0, text, None)]


def memories(count: int) -> list[str]:
    """Return made-up memories with 5 to 60 words, all lengths alike."""
    chance = random.Random(0)
    words = iter(" ".join(notes(count * 8)).split())
    return [" ".join(next(words) for _ in range(chance.randint(*WORDS))) for _ in range(count)]


def milliseconds(read_texts: Sequence[Passages]) -> float:
    """Return the median CPU milliseconds of what is done with a text once the encoder has seen it."""
    spent = []
    for passages in read_texts:
        started = time.process_time_ns()
        read(passages)
        spent.append((time.process_time_ns() - started) / 1e6)
    return round(median(spent), 2)


def load_encoder() -> Encode:
    """The bundled encoder as it serves the product."""
    model = BundledModel()
    return lambda text: [(passage.start, passage.text, passage.pieces) for passage in model.read(text)]


def read(passages: Passages) -> Extraction:
    """Return what the product finds in a text that the encoder gave these passages of."""
    return join([(start, part, extract(part, pieces)) for start, part, pieces in passages])


def load_time(encode: Encode) -> float:
    """Return the CPU seconds to read the word lists, the head and the patterns anew."""
    from r3_lite import entity_features, entity_head, entity_words

    for cached in (entity_words.lexicon, entity_head.load_head):
        cached.cache_clear()
    entity_features._lower_bits.cache_clear()
    passages = encode("Ada works for Acme.")
    started = time.process_time()
    read(passages)
    return round(time.process_time() - started, 3)


def measure(gold: Sequence[dict[str, Any]], encode: Encode, *, show_errors: bool) -> dict[str, Any]:
    """Return precision, recall and F1 over all sentences, and the false hits in those without entities."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in (*TYPES, "relations")}
    false_hits = empty = 0
    for item in gold:
        found = read(encode(item["text"]))
        entities = {(e["start"], e["end"], e["type"]) for e in item["entities"]}
        answered = {(e.start, e.end, e.type) for e in found.entities}
        kept = {e for e in answered if not any(e[0] < i["end"] and e[1] > i["start"] for i in item["ignore"])}
        for kind in TYPES:
            tally(counts[kind], {e for e in entities if e[2] == kind}, {e for e in kept if e[2] == kind})
        relations, answers = relation_keys(item), found_relation_keys(item, found)
        tally(counts["relations"], relations, answers)
        if not item["entities"] and not item["ignore"]:
            empty += 1
            false_hits += len(answered)
        if show_errors and (entities != kept or relations != answers):
            print(item["text"])
            for title, difference in (("missed", entities - kept), ("wrong", kept - entities)):
                print(f"  {title}:", [(item["text"][a:b], kind) for a, b, kind in sorted(difference)])
            print("  relations missed:", relations - answers, "wrong:", answers - relations)
    core = sum((counts[kind] for kind in CORE), Counter())
    return {
        "sentences": len(gold),
        "core": scores(core),
        **{name: scores(count) for name, count in counts.items()},
        "false_hits": round(false_hits / empty, 3) if empty else None,
    }


def relation_keys(item: dict[str, Any]) -> set[Key]:
    """The relations of the gold."""
    return {relation_key(r["from"], r["type"], r["to"]) for r in item["relations"]}


def found_relation_keys(item: dict[str, Any], found: Extraction) -> set[Key]:
    """The relations found, without those of ignored names."""
    ignored = {span["text"] for span in item["ignore"]}
    return {
        relation_key(r.source.name, r.type, r.target.name)
        for r in found.relations
        if not {r.source.name, r.target.name} & ignored
    }


def relation_key(source: str, kind: str, target: str) -> Key:
    """Same for both directions of KNOWS."""
    return (kind, *sorted((source, target))) if kind == "KNOWS" else (kind, source, target)


def tally(counts: Counter[str], gold: set[Key], answered: set[Key]) -> None:
    """Adds hits, false hits and misses."""
    counts["hit"] += len(gold & answered)
    counts["false"] += len(answered - gold)
    counts["missed"] += len(gold - answered)


def scores(counts: Counter[str]) -> dict[str, float]:
    """Precision, recall and F1; 0 where undefined."""
    hit, false, missed = counts["hit"], counts["false"], counts["missed"]
    return {
        "precision": round(hit / (hit + false), 3) if hit + false else 0.0,
        "recall": round(hit / (hit + missed), 3) if hit + missed else 0.0,
        "f1": round(2 * hit / (2 * hit + false + missed), 3) if hit + false + missed else 0.0,
        "gold": hit + missed,
    }


def print_table(result: dict[str, Any]) -> None:
    """Print precision, recall and F1 of each type and of relations."""
    table = Table("", "precision", "recall", "F1", "in the gold", title=f"{result['sentences']} sentences")
    for name in ("core", *TYPES, "relations"):
        row = result[name]
        table.add_row(name, *(f"{row[key]:.3f}" for key in ("precision", "recall", "f1")), str(row["gold"]))
    Console().print(table)


if __name__ == "__main__":
    main()

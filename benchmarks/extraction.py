"""How good and how fast extraction is: precision, recall and F1 of entities and relations, CPU time.

usage: python benchmarks/extraction.py --data GOLD.jsonl [--rules] [--json] [--errors]

GOLD.jsonl holds one object a line: `text`, `entities` [{text, type, start, end}], `relations` [{from, type,
to}] and `ignore` (spans that count neither way). An entity is right when its span and type are; a relation
when both names and the type are (KNOWS has no direction). Run from the source tree; the bundled encoder is
used unless `--rules` is given.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # it ships no types
from tokenizers import Tokenizer

from r3_lite.entity_head import Pieces
from r3_lite.extract import Extraction, extract

WEIGHTS = Path(__file__).parent.parent / "r3_lite" / "weights"
TYPES = ("people", "organizations", "technologies", "projects", "places", "dates")
CORE = TYPES[:4]
WINDOW, OVERLAP = 254, 64

Encode = Callable[[str], Pieces]
Key = tuple[Any, ...]


def main() -> None:
    """Measures and prints a table, or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--rules", action="store_true", help="measure the rules alone")
    parser.add_argument("--weights", type=Path, default=WEIGHTS, help="folder of model.onnx and tokenizer.json")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--errors", action="store_true", help="print what was missed or wrong")
    arguments = parser.parse_args()
    gold = [json.loads(line) for line in arguments.data.read_text(encoding="utf-8").splitlines() if line]
    started = time.process_time()
    encode = None if arguments.rules else load_encoder(arguments.weights)
    first = time.process_time()
    extract("warm up", encode("warm up") if encode else None)
    result = measure(gold, encode, show_errors=arguments.errors)
    result["load_seconds"] = {"encoder": round(first - started, 3), "extraction": load_time(encode)}
    print(json.dumps(result, indent=2) if arguments.json else table(result))


def load_encoder(folder: Path) -> Encode:
    """The bundled encoder as a function from text to pieces; long texts in overlapping windows."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(WINDOW + 2, stride=OVERLAP)

    def encode(text: str) -> Pieces:
        encoding = tokenizer.encode(text)
        vectors, offsets = [], []
        for window in (encoding, *encoding.overflowing):
            ids = np.array([window.ids], np.int64)
            inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
            vectors.append(session.run(["layer_4"], inputs)[0][0])
            offsets.append(np.array(window.offsets, np.int64))
        return Pieces(np.concatenate(vectors), np.concatenate(offsets))

    return encode


def load_time(encode: Encode | None) -> float:
    """CPU seconds to read the word lists and the head anew."""
    from r3_lite import entity_features, entity_head, entity_words

    for cached in (entity_words.lexicon, entity_head.load_head):
        cached.cache_clear()
    entity_features._lower_bits.cache_clear()
    started = time.process_time()
    entity_words.lexicon()
    if encode:
        entity_head.load_head()
    return round(time.process_time() - started, 3)


def measure(gold: Sequence[dict[str, Any]], encode: Encode | None, *, show_errors: bool) -> dict[str, Any]:
    """Scores of all sentences and the median CPU milliseconds of `extract` above the encoder pass."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in (*TYPES, "relations")}
    false_hits = empty = 0
    milliseconds = []
    for item in gold:
        pieces = encode(item["text"]) if encode else None
        started = time.process_time_ns()
        found = extract(item["text"], pieces)
        milliseconds.append((time.process_time_ns() - started) / 1e6)
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
            for title, difference in (
                ("missed", entities - kept),
                ("wrong", kept - entities),
            ):
                print(f"  {title}:", [(item["text"][a:b], kind) for a, b, kind in sorted(difference)])
            print("  relations missed:", relations - answers, "wrong:", answers - relations)
    core = sum((counts[kind] for kind in CORE), Counter())
    return {
        "sentences": len(gold),
        "core": scores(core),
        **{name: scores(count) for name, count in counts.items()},
        "false_hits_per_empty_sentence": round(false_hits / empty, 3) if empty else None,
        "median_ms": round(median(milliseconds), 2),
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


def table(result: dict[str, Any]) -> str:
    """The result as lines of text."""
    lines = [f"{'':15}{'P':>7}{'R':>7}{'F1':>7}{'gold':>6}"]
    for name in ("core", *TYPES, "relations"):
        row = result[name]
        lines.append(f"{name:15}{row['precision']:7.3f}{row['recall']:7.3f}{row['f1']:7.3f}{row['gold']:6d}")
    lines.append(f"false hits per empty sentence {result['false_hits_per_empty_sentence']}")
    lines.append(f"median CPU of extract {result['median_ms']} ms over {result['sentences']} sentences")
    lines.append(f"load, CPU seconds: {result['load_seconds']}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()

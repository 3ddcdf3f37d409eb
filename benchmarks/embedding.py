"""How fast, how true and how small is the bundled embedding model?

Method: 500 generated memories are embedded by r3-lite and, in the same run, by a default call of fastembed on the
same weights: the float32 graph and the int8 graph as custom models in a local folder, 256 texts a batch, as many
threads as it likes. Each takes turns, the best of the rounds counts. How true: 200 texts through the int8 and the
float32 graph, the cosine between both. The float32 graph is made by scripts/build_weights.py and needs the
`weights` extra; without it what depends on it is not measured. How small: resident memory of a process of its own
with the model loaded and 3,000 texts embedded, above that of bare Python.

Bars: 3 × the texts per second of fastembed, mean cosine >= 0.98, 150 MB.

    python -m benchmarks.embedding [--rounds N] [--texts FILE] [--json FILE]
"""

import argparse
import importlib.util
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort  # type: ignore[import-untyped]  # it ships no types
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer

from benchmarks.bars import Bar, at_least, at_most, print_bars, write_json
from benchmarks.server import ROOT
from r3_lite.embed import Encoder
from r3_lite.embed_models import WEIGHTS

MEMORIES, COMPARED, RESIDENT_TEXTS, QUERIES = 500, 200, 3_000, 200
SPEED_RATIO = 3.0
COSINE = 0.98
RESIDENT_MB = 150
LONGEST = 254  # tokens, without the special ones

SUBJECTS = (
    "the billing service|our release script|the nightly backup|the user|the design review|the staging database|the "
    "new intern|a customer from the north|the search page|the team for payments|the old laptop|the garden fence|the "
    "dentist|the landlord|the choir|the book about tides|the parser in src/lexer.py|the function load_rows()|the "
    "mobile client|the weekly report"
).split("|")
ACTIONS = (
    "prefers|now runs on|was moved to|depends on|does not work with|is waiting for|has been replaced by|needs|talked "
    "about|will be paid from|is scheduled after|failed because of|was very happy with|should never touch|costs less "
    "than|gets its data from"
).split("|")
OBJECTS = (
    "PostgreSQL 16|a dark theme with large letters|two cups of green tea|the queue in eu-west-1|Python 3.12 and uv|the "
    "invoice number 2024-0417|a week by the sea|https://example.org/docs/setup|the second floor|strict type "
    "checks|four hundred euros a month|an index on created_at|the spare key|the key RATE_LIMIT=40|peanuts and "
    "shellfish|rainy weather|a cache of ten minutes|the contract that ends in March|slow tests|the blue one"
).split("|")
TAILS = (
    "|since last Thursday|, as agreed on 12 May 2025|, which nobody expected|, at least until the next release|, and "
    "that is final|, but only on weekdays|, according to the logs|, see issue 381|, so please remind me a day before"
).split("|")
# How many sentences a memory has: most have one or two, some are notes.
SENTENCES = (1,) * 50 + (2,) * 25 + (3,) * 13 + (4, 5, 6) * 3 + (8, 10, 12)


def memories(number: int, seed: int) -> list[str]:
    """Return texts in the manner of what people have remembered, of 1 to 12 sentences, the same for a seed."""
    choose = random.Random(seed).choice

    def sentence() -> str:
        text = f"{choose(SUBJECTS)} {choose(ACTIONS)} {choose(OBJECTS)}"
        tail = choose(TAILS)
        return f"{text[0].upper()}{text[1:]}{tail if tail.startswith(',') or not tail else ' ' + tail}."

    return [" ".join(sentence() for _ in range(choose(SENTENCES))) for _ in range(number)]


def float32_graph() -> bytes | None:
    """Return the float32 graph of the bundled model, or None where the `weights` extra is not installed."""
    spec = importlib.util.spec_from_file_location("build_weights", ROOT / "scripts" / "build_weights.py")
    assert spec is not None
    assert spec.loader is not None
    build_weights = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build_weights)
    try:
        tensors = build_weights.read_source(build_weights.source_folder())
        graph: bytes = build_weights.build_graph(tensors, quantise=False)
    except (ImportError, build_weights.BuildError) as error:
        print(f"float32 is not measured: {error}")
        return None
    return graph


def fastembed_call(name: str, graph: bytes, folder: Path) -> Callable[[list[str]], Any]:
    """Return a default call of fastembed with a graph beside the bundled tokenizer as the model in `folder`."""
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    folder.mkdir()
    (folder / "model.onnx").write_bytes(graph)
    shutil.copy(WEIGHTS / "tokenizer.json", folder)
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 256, "pad_token": "[PAD]"}')
    TextEmbedding.add_custom_model(
        name,
        pooling=PoolingType.MEAN,
        normalization=True,
        sources=ModelSource(hf=name),
        dim=384,
        model_file="model.onnx",
    )
    model = TextEmbedding(name, specific_model_path=str(folder), local_files_only=True)
    return lambda texts: list(model.embed(texts))


def rates_of(
    calls: dict[str, Callable[[list[str]], Any]], texts: list[str], rounds: int
) -> dict[str, tuple[float, float]]:
    """Return the best texts per second and texts per CPU-second of each call; the calls take turns."""
    best = dict.fromkeys(calls, (0.0, 0.0))
    for call in calls.values():
        call(texts[:20])
    for _ in range(rounds):
        for name, call in calls.items():
            start, start_cpu = time.perf_counter(), time.process_time()
            call(texts)
            seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - start_cpu
            best[name] = (max(best[name][0], len(texts) / seconds), max(best[name][1], len(texts) / cpu_seconds))
    return best


def cosines(graphs: Sequence[bytes], texts: Sequence[str]) -> list[float]:
    """Return the cosine of each text between the first and the second graph, mean over its first 254 tokens."""
    tokenizer = Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LONGEST + 2)
    rows: list[list[NDArray[np.float64]]] = []
    for graph in graphs:
        session = ort.InferenceSession(graph, providers=["CPUExecutionProvider"])
        rows.append([])
        for text in texts:
            ids = np.array([tokenizer.encode(text).ids])
            hidden = session.run(["last_hidden_state"], {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0]
            mean = hidden[0].mean(axis=0, dtype=np.float64)
            rows[-1].append(mean / np.linalg.norm(mean))
    return [float(one @ other) for one, other in zip(*rows, strict=True)]


def query_milliseconds(encoder: Encoder, texts: Sequence[str]) -> list[float]:
    """Return how long each of the texts takes as a query that was not asked before."""
    taken = []
    for text in texts:
        start = time.perf_counter()
        encoder.embed_query(text)
        taken.append((time.perf_counter() - start) * 1000)
    return taken


def resident_megabytes(texts: Sequence[str]) -> float:
    """Return by how much a process grows that loads the model and embeds the texts, measured in a new one."""
    code = (
        "import json, sys, psutil\n"
        "size = lambda: psutil.Process().memory_info().rss\n"
        "bare = size()\n"
        "from pathlib import Path\n"
        "from r3_lite.embed import Encoder\n"
        "encoder = Encoder(cache_dir=Path())\n"
        "encoder.load()\n"
        "encoder.embed_texts(json.load(sys.stdin))\n"
        "print((size() - bare) / 1e6)"
    )
    script = [sys.executable, "-c", code]
    done = subprocess.run(script, input=json.dumps(texts), capture_output=True, text=True, check=True, cwd=ROOT)
    return float(done.stdout)


def main() -> None:
    """Read the command line, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2, help="how often each call embeds all texts")
    parser.add_argument("--texts", type=Path, help="a file with one text a line instead of the generated ones")
    parser.add_argument("--json", type=Path, help="file for the figures")
    arguments = parser.parse_args()
    texts = arguments.texts.read_text("utf-8").splitlines() if arguments.texts else memories(MEMORIES, seed=1)
    int8, float32 = (WEIGHTS / "model.onnx").read_bytes(), float32_graph()

    start = time.perf_counter()
    encoder = Encoder(cache_dir=Path())
    encoder.load()
    load_ms = (time.perf_counter() - start) * 1000

    with tempfile.TemporaryDirectory() as folder:
        calls: dict[str, Callable[[list[str]], Any]] = {"r3-lite": encoder.embed_texts}
        calls["fastembed, int8"] = fastembed_call("benchmark/int8", int8, Path(folder) / "int8")
        if float32 is not None:
            calls["fastembed, float32"] = fastembed_call("benchmark/float32", float32, Path(folder) / "float32")
        rates = rates_of(calls, texts, arguments.rounds)
    ratios = {name: rates["r3-lite"][0] / rate for name, (rate, _) in rates.items()}
    table = Table("", "texts/s", "texts/CPU-s", "r3-lite is faster by", title=f"{len(texts)} texts")
    for name, (rate, cpu_rate) in rates.items():
        table.add_row(name, f"{rate:.0f}", f"{cpu_rate:.0f}", f"{ratios[name]:.1f} ×")
    Console().print(table)

    compared = cosines([int8, float32], memories(COMPARED, seed=2)) if float32 is not None else []
    queries = query_milliseconds(encoder, [text[:80] for text in memories(QUERIES, seed=3)])
    resident = resident_megabytes(memories(RESIDENT_TEXTS, seed=4))
    figures = {
        "texts_per_second": {name: rate for name, (rate, _) in rates.items()},
        "texts_per_cpu_second": {name: rate for name, (_, rate) in rates.items()},
        "cosine_to_float32": {"mean": statistics.fmean(compared), "min": min(compared)} if compared else None,
        "query_ms": {"median": statistics.median(queries), "p95": statistics.quantiles(queries, n=20)[-1]},
        "load_ms": load_ms,
        "resident_mb": resident,
        "files_mb": sum(file.stat().st_size for file in WEIGHTS.iterdir()) / 1e6,
    }
    note = f"minimum {min(compared):.3f}" if compared else ""
    bars: list[Bar] = [
        at_least("texts per second, × fastembed int8", ratios["fastembed, int8"], SPEED_RATIO),
        at_least("texts per second, × fastembed float32", ratios.get("fastembed, float32"), SPEED_RATIO),
        at_least("cosine of int8 to float32", statistics.fmean(compared) if compared else None, COSINE, note=note),
        at_most("memory of the model, above bare Python", resident, RESIDENT_MB, "MB"),
    ]
    print(json.dumps({key: figures[key] for key in ("query_ms", "load_ms", "files_mb")}))
    print_bars(bars)
    write_json(arguments.json, bars, figures)


if __name__ == "__main__":
    main()

"""Run the benchmarks one after the other; print one table and write one JSON file.

    python -m benchmarks [--only startup,retrieval] [--json benchmarks/results/latest.json] [--data LOCOMO_FILE]

Each benchmark runs in a process of its own. The exit code is 1 when a bar is missed or a benchmark fails.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.bars import Bar, at_most, print_bars
from benchmarks.server import ROOT

BENCHMARKS = (
    *("startup", "listing", "embedding", "retrieval", "plain_notes", "latency", "caching"),
    *("durability", "coherence", "scale", "graph", "importing", "roundtrip", "duplicates", "endurance"),
)
STARTUP_RATIO = 1.10
LATEST = ROOT / "benchmarks" / "results" / "latest.json"


def run(name: str, arguments: list[str]) -> dict[str, Any]:
    """Run one benchmark, its output going where ours goes; return its JSON document.

    Raises subprocess.CalledProcessError when it fails.
    """
    with TemporaryDirectory() as folder:
        file = Path(folder) / "figures.json"
        # One that stands alone may be started anywhere; PYTHONPATH makes the source tree the one that is measured.
        subprocess.run(
            [sys.executable, "-m", f"benchmarks.{name}", *arguments, "--json", str(file)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            check=True,
        )
        document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return document


def bars_of(name: str, document: dict[str, Any]) -> list[Bar]:
    """Return the bars of a benchmark's document."""
    if name == "startup":
        return [
            at_most(
                f"start until {mark} is answered, × empty server",
                document[mark]["ratio"],
                STARTUP_RATIO,
                note=f"{document[mark]['server_ms']:.0f} ms, empty {document[mark]['empty_ms']:.0f} ms",
            )
            for mark in ("initialize", "tools/list")
        ]
    fields = ("name", "figure", "relation", "limit", "unit", "note")
    return [Bar(**{field: bar[field] for field in fields}) for bar in document["bars"]]


def main() -> None:
    """Read the command line, run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help=f"comma-separated, of {', '.join(BENCHMARKS)} (default: all)")
    parser.add_argument("--data", type=Path, help="a LoCoMo file, for retrieval")
    parser.add_argument("--json", type=Path, default=LATEST, help="file for all figures")
    arguments = parser.parse_args()
    chosen = arguments.only.split(",") if arguments.only else list(BENCHMARKS)
    bars: list[Bar] = []
    documents: dict[str, Any] = {}
    failed = []
    for name in chosen:
        print(f"\n== {name}", flush=True)
        more = ["--data", str(arguments.data.resolve())] if name == "retrieval" and arguments.data else []
        try:
            documents[name] = run(name, more)
            bars += bars_of(name, documents[name])
        except subprocess.CalledProcessError as error:
            failed.append(name)
            print(f"{name} failed with exit code {error.returncode}")
    print_bars(bars, title="\nAll bars")
    machine = {"python": platform.python_version(), "system": platform.platform(), "cores": os.cpu_count()}
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    whole = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": machine,
        "bars": [bar.as_json() for bar in bars],
        "failed": failed,
        "benchmarks": documents,
    }
    arguments.json.write_text(json.dumps(whole, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"written to {arguments.json}")
    sys.exit(1 if failed or any(bar.passed is False for bar in bars) else 0)


if __name__ == "__main__":
    main()

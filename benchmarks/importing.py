"""How much slower is an import than the embedding model alone, and does it survive kill -9?

Method, speed: made-up notes are embedded by the model as it is, sorted by length, and imported from a JSON file by an
engine in the same process; its clock stops when nothing is pending any more, so that reading the file, rows, keyword
index, history, vectors, entities and relations are all in it. Both take turns; the best round of each counts, in
seconds and in CPU seconds of the whole process. Other work on the machine falls upon both, but not evenly.

Method, kills: `r3-lite import` of a file is killed when it has stored a random number of memories and started again, to
be killed again a few times, and at last left to end; a kill that came after the last item does not count. The file must
then hold what an import without a kill holds: ids, texts, metadata, priorities, dates, sessions, and one history entry
a memory.

Bars: 85 % of the model's throughput; 20 kills in the middle leave no difference.

    python -m benchmarks.importing [--notes 2000] [--rounds 3] [--kills 20] [--json FILE]
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
from rich.console import Console
from rich.table import Table

from benchmarks.bars import Bar, at_least, at_most, print_bars, write_json
from benchmarks.notes import notes
from benchmarks.server import ROOT
from r3_lite.engine import Engine
from r3_lite.settings import load_settings

NOTES, ROUNDS, KILLS = 2_000, 3, 20
SHARE = 0.85
KILLED_ITEMS, KILLS_IN_A_ROW = 4_000, 4

Clock = tuple[float, float]
"""Seconds, and CPU seconds of the process."""


def timed(work: Callable[[], object]) -> Clock:
    """Return how long something takes."""
    start, start_cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - start, time.process_time() - start_cpu


def import_whole(file: Path, engine: Engine) -> None:
    """Import a file and wait until all of it is indexed."""
    engine.import_file(None, str(file))
    while engine.pending()[0]["pending"]:
        time.sleep(0.2)


def speed(count: int, rounds: int, home: Path) -> dict[str, Clock]:
    """Return the best clocks of the model alone and of the import."""
    texts = notes(count, seed=7)
    file = home / "notes.json"
    file.write_text(json.dumps([{"memory": text} for text in texts]), encoding="utf-8")
    best: dict[str, Clock] = {"model": (inf, inf), "import": (inf, inf)}
    for number in range(rounds):
        engine = Engine(load_settings(db_path=home / f"{number}.db", import_roots=(home,)))
        engine.encoder.load()
        engine.extractor.read(texts[0])
        engine.encoder.embed_texts(texts[:20])
        clocks = {
            "model": timed(partial(engine.encoder.embed_texts, sorted(texts, key=len))),
            "import": timed(partial(import_whole, file, engine)),
        }
        for name, clock in clocks.items():
            best[name] = (min(best[name][0], clock[0]), min(best[name][1], clock[1]))
        engine.close()
    return best


def items(count: int) -> list[dict[str, Any]]:
    """Return items that bring everything an item can bring, every third without an id."""
    return [
        {
            "memory": text,
            "metadata": {"number": n, "topic": f"t{n % 7}"},
            "priority": ("low", "medium", "high")[n % 3],
            "created_at": f"2024-{n % 12 + 1:02d}-{n % 28 + 1:02d}T10:00:00Z",
            **({"id": f"item-{n}"} if n % 3 else {}),
        }
        for n, text in enumerate(notes(count, seed=9))
    ]


def contents(path: Path) -> tuple[list[Any], list[Any]]:
    """Return the memories of a file, ids that the import made itself left out, and how long their histories are."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    memories = connection.execute(
        """SELECT iif(id LIKE 'item-%', id, ''), content, metadata, priority, created_at, updated_at, session
           FROM memories ORDER BY content"""
    ).fetchall()
    histories = connection.execute(
        """SELECT m.content, count(*) FROM memories AS m JOIN history AS h ON h.memory_id = m.id
           GROUP BY m.seq ORDER BY m.content"""
    ).fetchall()
    assert connection.execute("PRAGMA integrity_check").get == "ok"
    total = connection.execute("SELECT count(*) FROM history").get
    connection.close()
    return memories, [*histories, ("", total)]


def kills(count: int, home: Path, rng: random.Random) -> tuple[int, list[int]]:
    """Kill imports and let the last one end; return how many of the files differ and how much each kill left."""
    file = home / "items.json"
    file.write_text(json.dumps(items(KILLED_ITEMS)), encoding="utf-8")

    def start(path: Path) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "r3_lite", "--db", str(path), "--basic", "import", str(file), "--json"]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)})

    with start(home / "whole.db") as process:
        process.communicate()
    whole = contents(home / "whole.db")
    different, left, files = 0, list[int](), 0
    # A kill counts where it hit an import that was not through.
    while len(left) < count and files < count:
        path = home / f"killed-{files}.db"
        files += 1
        for target in sorted(rng.sample(range(KILLED_ITEMS), min(KILLS_IN_A_ROW, count - len(left)))):
            with start(path) as process:
                while process.poll() is None and rows(path) <= target:
                    time.sleep(0.002)
                process.kill()
                process.communicate()
            reached = rows(path)
            if reached < KILLED_ITEMS:
                left.append(reached)
        with start(path) as process:
            process.communicate()
        different += contents(path) != whole
    return different, left


def rows(path: Path) -> int:
    """Return how many memories a file holds that another process may be making just now."""
    if not path.exists():
        return 0
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        return int(connection.execute("SELECT count(*) FROM memories").get)
    except (apsw.SQLError, apsw.BusyError, apsw.CantOpenError):
        return 0
    finally:
        connection.close()


def main() -> None:
    """Read the command line, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--notes", type=int, default=NOTES, help="notes to import")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds of model and import")
    parser.add_argument("--kills", type=int, default=KILLS, help="imports to kill")
    parser.add_argument("--json", type=Path, help="file for the figures")
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        clocks = speed(arguments.notes, arguments.rounds, Path(folder))
    with TemporaryDirectory() as folder:
        different, left = kills(arguments.kills, Path(folder), random.Random(0))
    rates = {name: tuple(arguments.notes / seconds for seconds in clock) for name, clock in clocks.items()}
    table = Table(title=f"{arguments.notes:,} notes", title_justify="left")
    for heading in ("", "a second", "a CPU second"):
        table.add_column(heading, justify="right")
    for name, (wall, cpu) in rates.items():
        table.add_row(name, f"{wall:.0f}", f"{cpu:.0f}")
    Console(width=100).print(table)
    shares = [ours / alone for ours, alone in zip(rates["import"], rates["model"], strict=True)]
    bars: list[Bar] = [
        at_least("import until all is indexed, share of the model's throughput", shares[0], SHARE),
        at_least("kills in the middle of an import", len(left), arguments.kills),
        at_most("files that differ after them", different, 0),
    ]
    print_bars(bars)
    write_json(
        arguments.json,
        bars,
        {"rates": rates, "share": shares[0], "share_cpu": shares[1], "left_by_kills": left},
    )


if __name__ == "__main__":
    main()

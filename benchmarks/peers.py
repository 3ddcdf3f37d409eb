"""How does r3-lite compare with other memories that run on the same machine, on the same notes?

Method: each peer (`peer_kinds.py`) is installed from its registry into a folder of its own, filled with the same notes
in the same order by its normal add, and left running beside the others. Then questions in other words than their notes
are asked, each once, and fresh notes are added: every question and every note goes to all peers in turn, in an order
that is drawn anew each time, so that whatever else the machine does falls upon all alike. Beside the time on the clock
stands the processor time of the peer's process, a mean, which a busy machine disturbs less. No call is timed while
another peer works, nor while r3-lite still embeds what an add left to it. At last each is stopped and started again
with what it has stored, three times, until it answers a search.

Servers are timed at a raw pipe, from the line sent to the answer parsed; libraries inside their own process, and so is
r3-lite's engine: each is compared with its like. recall@10 is the share of questions whose note is among the ten
texts, of the plain notes (written by hand, `plain_notes.py`) and of made-up ones (`notes.pairs`). The defaults of each
peer are kept, but that texts are stored as they are where a language model would rewrite them or a look-alike keep them
out, that torch has one thread, that usage reports are off, and that models come from a package in place of a hub:
all-MiniLM-L6-v2 for all that take one.

Bars: r3-lite's search ahead of every peer that embeds, its add four times as fast, recall, memory and start-up not
behind. A peer that cannot be installed or does not run is listed with the reason.

    python -m benchmarks.peers [--memories 3000] [--peers server-memory,mem0-faiss,…] [--json FILE]
"""

import argparse
import contextlib
import json
import os
import random
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks import notes, plain_notes
from benchmarks.bars import Bar, at_least, at_most, print_bars, write_json
from benchmarks.peer_kinds import LIMIT, PEERS, Peer, Session, install, start

MEMORIES, QUESTIONS, ADDS, STARTS = 3_000, 100, 60, 3
WARM_UP = 5
FASTER_ADD = 4.0
# What may be within the noise of one run and still counts as not behind.
SLACK = 1.05
RECALL_SLACK = 0.01
PLAIN, MADE_UP = "plain notes", "made-up notes"
OURS = {"stdio": "r3-lite", "in process": "r3-lite engine"}
KEPT = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "r3-lite-peers"

Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Material:
    """What every peer is given: notes to hold, questions with their note and set, notes to add, words to warm up."""

    held: tuple[str, ...]
    asked: tuple[tuple[str, str, str], ...]
    fresh: tuple[str, ...]
    warm: tuple[str, ...]


def material(memories: int, questions: int, adds: int) -> Material:
    """Return the same notes and questions for the same numbers; the notes that answer lie scattered among the rest.

    `questions` is how many of each of the two sets are asked, as far as there are so many.
    """
    plain = json.loads(plain_notes.DATA.read_text(encoding="utf-8"))
    text = {note["id"]: note["text"] for note in plain["notes"]}
    asked = [(made, note, MADE_UP) for note, made in notes.pairs(questions)]
    asked += [(one["question"], text[one["gold"]], PLAIN) for one in plain["questions"][:questions]]
    random.Random(0).shuffle(asked)
    answers = dict.fromkeys((*text.values(), *(note for _, note, _ in asked)))
    rest = [note for note in notes.notes(memories, seed=5) if note not in answers]
    held = [*answers, *rest[: max(0, memories - len(answers))]]
    random.Random(0).shuffle(held)
    known = set(held)
    fresh = [note for note in notes.notes(adds + WARM_UP, seed=6) if note not in known]
    return Material(tuple(held), tuple(asked), tuple(fresh), tuple(notes.questions(WARM_UP)))


def fill(session: Session, given: Material) -> None:
    """Store the notes and warm up. Raises RuntimeError if nothing is found after."""
    for text in given.held:
        session.add(text, counts=False)
    session.settle()
    for text, query in zip(given.fresh[:WARM_UP], given.warm, strict=True):
        session.add(text, counts=False)
        session.search(query, counts=False)
    session.settle()
    check(session, given)


def check(session: Session, given: Material) -> None:
    """Raise RuntimeError unless a note is found by its own words."""
    if not holds(session.search(given.held[-1], counts=False), given.held[-1]):
        raise RuntimeError("it does not find a note by its own words")


def holds(texts: Sequence[str], note: str) -> bool:
    """Tell whether a note is among texts, or within one that shows several."""
    return any(note in text for text in texts)


def start_seconds(peer: Peer, kit: Path, home: Path, given: Material) -> float:
    """Return the seconds from the start of a peer that has its notes until it has answered a search."""
    began = time.perf_counter()
    session = start(peer, kit, home)
    try:
        check(session, given)
        return time.perf_counter() - began
    finally:
        session.pipe.close()


def stored_mb(home: Path) -> float:
    """Return the size of what a peer has stored, its log not counted, in MiB."""
    return sum(file.stat().st_size for file in home.rglob("*") if file.is_file() and file.name != "peer.log") / 2**20


def summary(values: Sequence[float]) -> dict[str, float] | None:
    """Return the median, the 95th percentile and the mean, or None of nothing."""
    if len(values) < 2:
        return None
    p95 = statistics.quantiles(values, n=20)[-1]
    return {"p50": statistics.median(values), "p95": p95, "mean": statistics.fmean(values)}


@contextlib.contextmanager
def trying(peer: Peer, failed: dict[str, str]) -> Iterator[None]:
    """Note why a peer drops out, once, and go on without it."""
    try:
        yield
    except subprocess.CalledProcessError as error:
        failed.setdefault(peer.name, f"cannot be installed: {last_line(error.stderr or str(error))}")
    except (RuntimeError, OSError, KeyError, ValueError, subprocess.TimeoutExpired, psutil.Error) as error:
        failed.setdefault(peer.name, last_line(str(error)))


def last_line(text: str) -> str:
    """Return the last line that says something, cut to a table's width."""
    return next((line.strip()[:300] for line in reversed(text.splitlines()) if line.strip()), "no reason given")


def measure(peers: Sequence[Peer], given: Material, kept: Path, homes: Path) -> Figures:
    """Install, fill, ask and restart all peers; return the figures of each, and why others have none."""
    rng = random.Random(0)
    failed: dict[str, str] = {}
    kits: dict[str, Path] = {}
    running: list[Session] = []
    figures: dict[str, Figures] = {}
    with contextlib.ExitStack() as stack:
        for peer in peers:
            home = homes / peer.name.replace(" ", "-")
            home.mkdir()
            with trying(peer, failed):
                print(f"{peer.name}: installing and starting", flush=True)
                kits[peer.name] = install(peer, kept)
                session = start(peer, kits[peer.name], home)
                stack.callback(session.pipe.close)
                figures[peer.name] = {name: getattr(peer, name) for name in ("over", "embeds", "about", "product")}
                running.append(session)
        print(f"storing {len(given.held):,} notes in each", flush=True)
        fill_all(running, given, failed)
        running = [session for session in running if session.peer.name not in failed]
        print("asking", flush=True)
        ask_all(running, given, rng, failed, figures)
        for session in running:
            with trying(session.peer, failed):
                figures[session.peer.name]["resident_mb"] = session.pipe.resident_mb()
    running = [session for session in running if session.peer.name not in failed]
    starts: dict[str, list[float]] = {session.peer.name: [] for session in running}
    for _ in range(STARTS):
        print("starting again", flush=True)
        for session in rng.sample(running, len(running)):
            with trying(session.peer, failed):
                name = session.peer.name
                starts[name].append(start_seconds(session.peer, kits[name], session.home, given))
    for session in running:
        row = figures[session.peer.name]
        row["start_seconds"] = statistics.median(starts[session.peer.name] or [float("nan")])
        row["stored_mb"] = stored_mb(session.home)
        row |= {name: summary(values) for name, values in session.took.items()}
    return {"peers": {name: row for name, row in figures.items() if name not in failed}, "failed": failed}


def fill_all(running: Sequence[Session], given: Material, failed: dict[str, str]) -> None:
    """Fill all at once: nothing is timed yet."""

    def one(session: Session) -> None:
        with trying(session.peer, failed):
            fill(session, given)
            print(f"{session.peer.name}: filled", flush=True)

    with ThreadPoolExecutor(max(1, len(running))) as pool:
        list(pool.map(one, running))


def ask_all(
    running: Sequence[Session], given: Material, rng: random.Random, failed: dict[str, str], figures: dict[str, Figures]
) -> None:
    """Ask every question and add every fresh note, each to all peers in turn; enter the recall of each."""
    hits = {session.peer.name: Counter[str]() for session in running}
    fresh = given.fresh[WARM_UP:]
    for number, (question, note, origin) in enumerate(given.asked):
        for session in rng.sample(running, len(running)):
            if session.peer.name in failed:
                continue
            with trying(session.peer, failed):
                if number < len(fresh):
                    session.add(fresh[number])
                hits[session.peer.name][origin] += holds(session.search(question)[:LIMIT], note)
    of = Counter(origin for _, _, origin in given.asked)
    for name, count in hits.items():
        figures[name]["recall@10"] = {origin: count[origin] / of[origin] for origin in of}


def bars(figures: Figures) -> list[Bar]:
    """Return the bars: r3-lite against each peer that embeds and can be had, servers and libraries apart."""
    rows: dict[str, Figures] = figures["peers"]
    made = []
    for over, name in OURS.items():
        ours = rows.get(name)
        theirs = {
            other: row
            for other, row in rows.items()
            if row["over"] == over and row["embeds"] and row["product"] and other != name
        }
        if ours is None:
            continue
        for other, row in theirs.items():
            search, add = row["search"]["p50"], row["add"]["p50"]
            made += [
                at_most(
                    f"search p50, {name} / {other}", ours["search"]["p50"] / search, 1.0, "×", f"of {search:.1f} ms"
                ),
                at_least(f"add p50, {other} / {name}", add / ours["add"]["p50"], FASTER_ADD, "×", f"{add:.1f} ms"),
                *(
                    at_least(
                        f"recall@10 of {origin}, {name} − {other}", found - row["recall@10"][origin], -RECALL_SLACK
                    )
                    for origin, found in ours["recall@10"].items()
                ),
                at_most(f"resident, {name} / {other}", ours["resident_mb"] / row["resident_mb"], SLACK, "×"),
                at_most(f"start-up, {name} / {other}", ours["start_seconds"] / row["start_seconds"], SLACK, "×"),
            ]
    return made


def print_peers(figures: Figures) -> None:
    """Print one row per peer, and what dropped out."""
    table = Table(title=f"{figures['memories']:,} memories; milliseconds, p50 / p95 (CPU: mean)", title_justify="left")
    table.add_column("")
    for column in ("add", "CPU", "search", "CPU", "encoder", "recall@10", "MB resident", "start, s", "MB stored"):
        table.add_column(column, justify="right")
    over = ""
    for name, row in sorted(figures["peers"].items(), key=lambda item: item[1]["over"] != "stdio"):
        if row["over"] != over:
            over = row["over"]
            table.add_section()
            table.add_row(f"[bold]{over}[/]")
        times = [
            text
            for what in ("add", "search")
            for text in (f"{row[what]['p50']:.1f} / {row[what]['p95']:.1f}", f"{row[f'{what} cpu']['mean']:.1f}")
        ]
        encoder = f"{row['encoder']['p50']:.1f}" if row["encoder"] else "–"
        recall = " / ".join(f"{row['recall@10'][origin]:.2f}" for origin in (PLAIN, MADE_UP))
        rest = (recall, f"{row['resident_mb']:.0f}", f"{row['start_seconds']:.1f}")
        table.add_row(name, *times, encoder, *rest, f"{row['stored_mb']:.1f}")
    Console(width=130).print(table)
    for name, reason in figures["failed"].items():
        print(f"{name}: not measured. {reason}")
    print(f"load average {figures['load_average']}")


def main() -> None:
    """Read the command line, measure, print and write."""
    names = [peer.name for peer in PEERS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=MEMORIES, help=f"notes in each store (default: {MEMORIES})")
    parser.add_argument("--questions", type=int, default=QUESTIONS, help=f"of each set (default: {QUESTIONS})")
    parser.add_argument("--adds", type=int, default=ADDS, help=f"timed adds, at most as many (default: {ADDS})")
    parser.add_argument("--peers", help=f"of {', '.join(names)} (default: all); r3-lite always runs")
    parser.add_argument("--kept", type=Path, default=KEPT, help="folder for what is installed (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="file for the figures")
    arguments = parser.parse_args()
    wanted = arguments.peers.split(",") if arguments.peers else names
    unknown = set(wanted) - set(names)
    if unknown:
        parser.error(f"no such peer: {', '.join(sorted(unknown))}")
    chosen = [peer for peer in PEERS if peer.name in wanted or peer.name in OURS.values()]
    given = material(arguments.memories, arguments.questions, arguments.adds)
    with TemporaryDirectory() as homes:
        figures = measure(chosen, given, arguments.kept.resolve(), Path(homes))
    figures["memories"] = arguments.memories
    figures["load_average"] = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    print_peers(figures)
    print_bars(bars(figures))
    write_json(arguments.json, bars(figures), figures)


if __name__ == "__main__":
    main()

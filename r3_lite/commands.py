"""The commands for people that read and change the memory: the same engine as the server's, on the same file.

Each takes the parsed arguments and the settings, prints, and returns the exit code. They work while servers run on the
file, start none, and need no model; R3Error passes through.
"""

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from math import inf
from pathlib import Path
from typing import Any

from r3_lite import formats, render, terminal, transfer
from r3_lite.engine import Engine, How
from r3_lite.errors import InvalidParameters, ModelUnavailable
from r3_lite.models import AddResult, DuplicateMemory, ImportResult, Memory, SearchHit, SimilarMemory
from r3_lite.search import WEAK
from r3_lite.settings import Settings


def add(args: argparse.Namespace, settings: Settings) -> int:
    """Store a memory and, where the model can be had, its vector."""
    text = _text(args.text)
    with open_engine(settings) as engine:
        stored = engine.add(None, text, metadata=args.metadata, priority=args.priority, wait=True)
    duplicate = stored.added.duplicate
    result = AddResult(
        memory_id=stored.added.id,
        message=render.add_message(duplicate, differs=False),
        duplicate=duplicate,
        cached=False,
        indexing="done" if stored.indexed else "pending",
        similar=[SimilarMemory(id=s.id, memory=s.content, score=round(s.score, 3)) for s in stored.added.similar],
    )
    if args.json:
        terminal.show_json(result.model_dump())
        return 0
    print(f"{result.message}: {result.memory_id}")
    if settings.demo:
        terminal.complain("kept in memory only (demo): it is gone already")
    if stored.differs:
        terminal.complain("its metadata and priority stay as they were")
    if not stored.indexed and settings.intelligence == "full":
        terminal.complain("it is found by keyword now, by meaning once a server has indexed it")
    if result.similar:
        rows = [(f"{s.score:.2f}", s.id, s.memory) for s in result.similar]
        terminal.show_table(
            ("similarity", "id", "memory"),
            rows,
            title="Similar memories: update or delete one that this corrects",
            wide="memory",
        )
    return 0


def search(args: argparse.Namespace, settings: Settings) -> int:
    """Print what answers a query best, by meaning and keyword; by keyword alone without the model."""
    query = " ".join(args.query)
    with open_engine(settings) as engine:
        if settings.intelligence == "full":
            try:
                engine.encoder.load()
            except ModelUnavailable as error:
                terminal.complain(f"searching by keyword only: {error.message}")
        found = engine.search(None, query, limit=args.limit, threshold=args.threshold)
    if found.warning:
        terminal.complain(found.warning)
    hits = found.ranking.hits
    if args.json:
        results = [
            SearchHit.of(
                hit.record,
                score=round(hit.score, 4),
                score_breakdown=hit.breakdown.shown(),
                matched_entities=list(hit.entities),
            ).model_dump()
            for hit in hits
        ]
        terminal.show_json({"results": results, "mode": found.mode, "total": found.total})
    elif hits:
        rows = [
            (
                f"{hit.score:.2f}" + (" weak" if hit.score < WEAK else ""),
                hit.record.content,
                hit.record.created_at[:10],
                hit.record.id,
            )
            for hit in hits
        ]
        title = f"{len(hits)} of {found.total} memories" + ("" if found.mode == "hybrid" else ", by keyword only")
        terminal.show_table(("score", "memory", "date", "id"), rows, title=title, wide="memory")
    else:
        print(f"No memories found: none of the {found.total} of user {user_of(settings)} answers this.")
    return 0


def get(args: argparse.Namespace, settings: Settings) -> int:
    """Print one memory whole."""
    with open_engine(settings) as engine:
        record = engine.get(None, args.id)
    memory = Memory.of(record)
    if args.json:
        terminal.show_json(memory.model_dump())
        return 0
    facts = [(name, str(getattr(memory, name))) for name in ("id", "user_id", "priority", "created_at", "updated_at")]
    facts += [(f"metadata.{key}", str(value)) for key, value in memory.metadata.items()]
    terminal.show_facts(facts)
    print(f"\n{terminal.printable(memory.content)}")
    return 0


def list_memories(args: argparse.Namespace, settings: Settings) -> int:
    """Print one page of a user's memories, newest first."""
    with open_engine(settings) as engine:
        page = engine.page(None, limit=args.limit, offset=args.offset)
    if args.json:
        memories = [Memory.of(record).model_dump() for record in page.records]
        terminal.show_json({"total": page.total, "offset": args.offset, "memories": memories})
    elif page.records:
        end = args.offset + len(page.records)
        title = f"Memories {args.offset + 1} to {end} of {page.total}, newest first"
        title += f"; --offset {end} shows more" if end < page.total else ""
        rows = [(r.content, r.priority, r.created_at[:10], r.id) for r in page.records]
        terminal.show_table(("memory", "priority", "date", "id"), rows, title=title, wide="memory")
    else:
        print(f"No memories found: user {user_of(settings)} has {page.total}.")
    return 0


def import_memories(args: argparse.Namespace, settings: Settings) -> int:
    """Import a file, the standard input or what Mem0 has, and index it; Ctrl-C leaves the rest to another time."""
    with open_engine(settings) as engine, terminal.interruptible() as stopped, terminal.progress() as show:
        how: How = {
            "priority": args.priority,
            "skip_duplicates": not args.keep_copies,
            "revive": args.revive,
            "progress": lambda done, total: show("importing", done, total),
            "stopped": stopped,
        }
        if args.mem0:
            tally = engine.import_mem0(None, told=lambda count: show("from Mem0", count, None), **how)
        else:
            tally = engine.import_records(None, _records(args.file, stopped), **how)
        pending = _index(engine, stopped, show) if tally.imported else 0
    result = ImportResult.of(tally)
    if args.json:
        terminal.show_json(result.model_dump())
    else:
        print(result.message)
        if result.errors:
            rows = [(str(problem.index), problem.reason) for problem in result.errors]
            terminal.show_table(("item", "reason"), rows, title="Not imported", wide="reason")
    if pending:
        terminal.complain(f"{pending} are found by keyword now, by meaning once a server has indexed them")
    return 130 if tally.unreached else 1 if tally.failed else 0


def delete(args: argparse.Namespace, settings: Settings) -> int:
    """Remove one memory, or all of a user after a confirmation."""
    if args.id is not None:
        with open_engine(settings) as engine:
            record = engine.delete(None, args.id)
        if args.json:
            terminal.show_json({"deleted": [record.id]})
        else:
            print(f"Deleted: {terminal.printable(record.content)}")
        return 0
    with open_engine(settings) as engine:
        count = engine.delete_all(None, confirm=False)
        question = f"Delete all {count} memories of user {user_of(settings)}? [y/N] "
        if not args.yes and input(question).strip().lower() not in {"y", "yes"}:
            print("Nothing was deleted.")
            return 1
        count = engine.delete_all(None, confirm=True)
    if args.json:
        terminal.show_json({"deleted_count": count})
    else:
        print(f"Deleted {count} memories of user {user_of(settings)}.")
    return 0


def dedupe(args: argparse.Namespace, settings: Settings) -> int:
    """Print which memories say the same and, with --apply, merge them."""
    from r3_lite import duplicates_text

    with open_engine(settings) as engine:
        found = (
            engine.merge_duplicates(None, args.threshold) if args.apply else (engine.duplicates(None, args.threshold),)
        )
    result = duplicates_text.whole(*found) if args.json else duplicates_text.result(*found)
    if args.json:
        terminal.show_json(result.model_dump())
        return 0
    print(result.message.replace("Repeat with dry_run: false", "Repeat with --apply"))
    rows = [
        (name, memory.id, f"{memory.similarity:.2f}" if isinstance(memory, DuplicateMemory) else "", memory.memory)
        for one in result.groups
        for name, memory in (("stays", one.primary), *(("merged" if args.apply else "goes", d) for d in one.duplicates))
    ]
    if rows:
        terminal.show_table(("", "id", "similarity", "memory"), rows, title="Say the same", wide="memory")
    pairs = [
        row
        for one in result.look_alikes
        for row in ((f"{one.similarity:.2f}", one.id, one.memory), ("", one.other_id, one.other_memory))
    ]
    if pairs:
        terminal.show_table(("similarity", "id", "memory"), pairs, title="Look alike; they stay", wide="memory")
    return 0


def graph(args: argparse.Namespace, settings: Settings) -> int:
    """Print a part of the knowledge graph as a tree, or write it as the files that were asked for."""
    from r3_lite import drawing, graph_text, knowledge

    name = " ".join(args.entity)
    with open_engine(settings) as engine:
        found = knowledge.neighbourhood(
            engine,
            None,
            limit=args.limit,
            entity_type=args.type,
            entity_name=name or None,
            relationship_type=args.relation,
        )
        behind, texts = knowledge.evidence(engine, found) if args.html else ({}, {})
    title = name or f"Who and what the memories of {user_of(settings)} speak of"
    if args.dot:
        _write(args.dot, drawing.dot(found))
    if args.mermaid:
        _write(args.mermaid, drawing.mermaid(found))
    if args.html:
        memories = {memory: drawing.Evidence(made[:10], text) for memory, (made, text) in texts.items()}
        _write(args.html, drawing.page(found, title, behind, memories))
    if args.json:
        terminal.show_json(graph_text.graph_of(found, args.limit, inf).model_dump(by_alias=True))
    elif not found.nodes:
        print(f"No entities found in the memories of user {user_of(settings)}.")
    elif not (args.dot or args.mermaid or args.html):
        count = f"{len(found.nodes)} of {found.total_nodes} entities"
        terminal.show(drawing.tree(found, f"{title} ({count})"))
    return 0


def stats(args: argparse.Namespace, settings: Settings) -> int:
    """Print where the file is, how it is, and what it holds; the exit code is 1 if something is broken."""
    from r3_lite.health import measure

    with open_engine(settings) as engine:
        health = measure(engine)
    if args.json:
        terminal.show_json(health.model_dump())
    else:
        database, counts, index, model = health.database, health.counts, health.index, health.model
        terminal.show_facts(
            [
                ("status", f"{health.status}: {health.next_step}"),
                ("file", database["path"]),
                ("size", f"{database['size']:,} bytes, journal mode {database['journal_mode']}"),
                ("free on the disk", f"{database['free'] // 1_000_000:,} MB"),
                ("integrity", f"{database['integrity']}, schema {database['schema_version']}"),
                ("writable", "yes" if database["writable"] else "not at the moment"),
                ("memories", f"{counts['memories']:,} of {counts['users']:,} users"),
                ("history", f"{counts['history']:,} entries"),
                ("not indexed yet", f"{index['pending']} waiting, {index['failed']} failed"),
                ("model", f"{model['name']}, {model['dimension']} dimensions, {_state(model['state'])}"),
                ("graph", f"{health.graph['entities']:,} entities, {health.graph['relations']:,} relations"),
                ("version", health.version),
            ]
        )
    return 1 if health.status == "error" else 0


def models(args: argparse.Namespace, settings: Settings) -> int:
    """List the embedding models, or fetch one."""
    from dataclasses import asdict

    from r3_lite.embed import available_models, download

    if args.action == "download":
        download(args.name, settings.model_cache)
        if args.json:
            terminal.show_json({"downloaded": args.name})
        else:
            print(f"Downloaded. Set R3_EMBEDDING_MODEL={args.name} to use it; memories are then embedded anew.")
        return 0
    choices = available_models(settings.model_cache)
    if args.json:
        terminal.show_json([asdict(choice) for choice in choices])
        return 0
    rows = [
        (
            choice.name,
            str(choice.dimension),
            f"{choice.megabytes:,} MB",
            "many" if choice.multilingual else "English",
            "here" if choice.present else "to download",
        )
        for choice in choices
    ]
    title = "Embedding models; the first is the default"
    terminal.show_table(("name", "dimensions", "size", "languages", "state"), rows, title=title, wide="name")
    return 0


@contextlib.contextmanager
def open_engine(settings: Settings) -> Iterator[Engine]:
    """Give the block an engine, which is closed at its end."""
    engine = Engine(settings)
    try:
        yield engine
    finally:
        engine.close()


def _index(engine: Engine, stopped: Callable[[], bool], show: Callable[[str, int, int | None], None]) -> int:
    """Wait for the worker to index what was imported, while it can; return how many memories it leaves."""
    total = pending = engine.pending()[0]["pending"]
    while pending and not stopped() and engine.encoder.state in ("idle", "loading", "ready"):
        show("indexing", total - pending, total)
        time.sleep(0.1)
        pending = engine.pending()[0]["pending"]
    return pending


def _records(file: str, stopped: Callable[[], bool]) -> list[Any]:
    """Return the records of a file that the user names, wherever it is, or of the standard input."""
    if file == "-":
        if sys.stdin is None:
            raise InvalidParameters("There is no standard input. Give a file.")
        return formats.records(sys.stdin.buffer.read(), stopped)
    path = Path(terminal.argument(file)).expanduser().absolute()
    with contextlib.suppress(OSError, RuntimeError):
        # Links are followed here: whoever types the name may read what it leads to.
        path = path.resolve(strict=True)
    return transfer.read_file(str(path), [Path(path.anchor)], stopped)


def _text(words: list[str]) -> str:
    if words and words != ["-"]:
        return " ".join(words)
    if sys.stdin is None or (not words and terminal.is_interactive()):
        raise InvalidParameters("There is no text to remember. Give it as an argument, or pipe it in.")
    try:
        return sys.stdin.read().removesuffix("\n")
    except UnicodeDecodeError:
        raise InvalidParameters("The standard input is not UTF-8 text. Nothing was stored.") from None


def _write(path: str, text: str) -> None:
    """Write a file that only its owner may read, as the memories themselves; "-" is standard output."""
    if path == "-":
        print(text)
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise InvalidParameters(f"The file cannot be written ({type(error).__name__}). Give another path.") from None
    terminal.complain(f"written: {path}")


def user_of(settings: Settings) -> str:
    """Return the name of the user, for messages."""
    return terminal.printable(settings.user_id)


def _state(state: str) -> str:
    return "loaded when needed" if state == "idle" else state

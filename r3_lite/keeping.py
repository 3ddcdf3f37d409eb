"""The commands that keep, move, bring back and purge what is remembered. As in `commands`, R3Error passes through."""

import argparse
import contextlib
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from r3_lite import backup, history, store, terminal
from r3_lite.clock import days_ago
from r3_lite.commands import open_engine, user_of
from r3_lite.engine import Engine
from r3_lite.errors import StorageBusy
from r3_lite.export import export as exported
from r3_lite.files import new_file
from r3_lite.models import Memory
from r3_lite.settings import Settings


def export(args: argparse.Namespace, settings: Settings) -> int:
    """Write the memories of a user, or of all, to a file or to standard output."""
    with open_engine(settings) as engine:
        user = None if args.all_users else engine.user(None)
        written = exported(engine.database, args.format, user, with_history=args.with_history)
        with contextlib.closing(written) as text:
            if args.output == "-":
                _print(text)
                return 0
            target = Path(args.output)
            with (
                engine.database.read() as connection,
                new_file(target, overwrite=args.force, never=engine.database.path) as unfinished,
                unfinished.open("w", encoding="utf-8", newline="") as file,
            ):
                file.writelines(text)
                count = store.rows(connection) if user is None else store.count(connection, user)
    of_whom = "all users" if user is None else f"user {user_of(settings)}"
    terminal.complain(f"{count:,} memories of {of_whom} are in {target} ({target.stat().st_size:,} bytes)")
    return 0


def make_backup(args: argparse.Namespace, settings: Settings) -> int:
    """Write the whole file, all users and the history, to one examined file."""
    with open_engine(settings) as engine:
        target = Path(args.file) if args.file else None
        made = backup.make(engine.database, target, overwrite=args.force)
    size = made.path.stat().st_size
    if args.json:
        terminal.show_json(
            {
                "path": str(made.path),
                "size": size,
                "memories": made.memories,
                "users": made.users,
                "history": made.history,
            }
        )
    else:
        print(f"{made.path}: {size:,} bytes, {_counts(made)}; examined and sound")
    return 0


def restore(args: argparse.Namespace, settings: Settings) -> int:
    """Make the memories what a backup holds, after a question; what was there is kept beside it."""
    with open_engine(settings) as engine, backup.staged(engine.database, Path(args.file)) as copy:
        question = f"Exchange all memories in {engine.database.path} for those of the backup ({_counts(copy)})? [y/N] "
        if not args.yes and not _agreed(question):
            print("Nothing was changed.")
            return 1
        restored = backup.restore(engine.database, copy)
    if args.json:
        terminal.show_json(
            {
                "memories": copy.memories,
                "users": copy.users,
                "history": copy.history,
                "kept": str(restored.kept) if restored.kept else None,
                "restart_servers": restored.exchanged,
            }
        )
        return 0
    print(f"Restored: {_counts(copy)}.")
    if restored.exchanged:
        print(f"The file was damaged and is kept as {restored.kept}. Restart every client that uses it.")
    elif restored.kept:
        print(
            f"What was there before is kept as {restored.kept}. Servers that are running go on with what is there now."
        )
    return 0


def show_history(args: argparse.Namespace, settings: Settings) -> int:
    """Print the versions of a memory, or which memories were deleted and can be brought back."""
    with open_engine(settings) as engine:
        if args.id:
            total, versions = engine.history(None, args.id, args.limit)
            found = [(args.id, version) for version in versions]
            title = f"{len(found)} of {total} versions, oldest first; restore-memory ID --version N brings one back"
        else:
            with engine.database.read() as connection:
                found = history.gone(connection, engine.user(None), args.limit)
            title = "Deleted memories, those deleted last first; restore-memory ID brings one back"
    if args.json:
        terminal.show_json([{"id": memory_id, **asdict(version)} for memory_id, version in found])
    elif found:
        rows = [(str(v.version), v.action, v.timestamp[:16], v.content, memory_id) for memory_id, v in found]
        terminal.show_table(("version", "action", "time", "memory", "id"), rows, title=title, wide="memory")
    else:
        print(f"User {user_of(settings)} has no deleted memories.")
    return 0


def restore_memory(args: argparse.Namespace, settings: Settings) -> int:
    """Bring one memory back as it was."""
    with open_engine(settings) as engine:
        record = engine.restore(None, args.id, version=args.version, as_copy=args.copy)
    if args.json:
        terminal.show_json(Memory.of(record).model_dump())
    else:
        print(f"Restored: {terminal.printable(record.content)}")
    return 0


def purge(args: argparse.Namespace, settings: Settings) -> int:
    """Remove old versions for good after a question, and write the file anew without them."""
    with open_engine(settings) as engine:
        if args.id:
            what = "all former versions of this memory"
        elif args.deleted:
            what = f"all versions of the memories that user {user_of(settings)} has deleted"
        else:
            what = f"the versions that memories of user {user_of(settings)} had more than {args.older_than} days ago"
        if not args.yes and not _agreed(f"Remove {what}, for good? [y/N] "):
            print("Nothing was removed.")
            return 1
        with engine.database.write() as connection:
            removed = history.purge(
                connection,
                engine.user(None),
                memory_id=args.id,
                deleted=args.deleted,
                before=None if args.older_than is None else days_ago(args.older_than),
            )
            # Words of what is gone would stay readable in the index and in the vocabulary.
            store.rebuild_keyword_index(connection)
        erased = _erase(engine)
        path = engine.database.path
    copies = backup.copies_beside(path) if path else []
    if args.json:
        terminal.show_json({"removed": removed, "erased": erased, "backups": [str(copy) for copy in copies]})
        return 0
    print(f"Removed: {removed} versions.")
    if not erased:
        terminal.complain(
            "other processes use the file: what was removed may still be read in it or in its log by other programs. "
            "Stop them and run the same command again."
        )
    if copies:
        terminal.complain(f"backups that may still hold it: {', '.join(map(str, copies))}")
    return 0


def _erase(engine: Engine) -> bool:
    try:
        return backup.compact(engine.database)
    except StorageBusy:
        return False


def _agreed(question: str) -> bool:
    return input(question).strip().lower() in {"y", "yes"}


def _counts(copy: backup.Copy) -> str:
    return f"{copy.memories:,} memories of {copy.users:,} users, {copy.history:,} history entries"


def _print(text: Iterable[str]) -> None:
    # As bytes: what is exported is UTF-8 with the same line ends on every system.
    if sys.stdout is None:
        return
    sys.stdout.flush()
    for part in text:
        sys.stdout.buffer.write(part.encode())
    sys.stdout.buffer.flush()

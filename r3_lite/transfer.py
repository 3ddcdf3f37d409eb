"""Import of memories: which files may be read, and item by item into the store."""

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r3_lite import formats, history, similar, store, talks
from r3_lite.db import Database
from r3_lite.errors import ImportFailed, InvalidParameters
from r3_lite.formats import Item
from r3_lite.limits import MAX_METADATA
from r3_lite.past import Past
from r3_lite.store import NewMemory
from r3_lite.text import text_hash

if TYPE_CHECKING:
    import apsw

MAX_FILE_BYTES = 256 * 1024 * 1024
MAX_ERRORS_SHOWN = 50
# Of the memories that a part of a graph may be added to, so many are looked at: there may be thousands of one text.
MAX_SAME = 16


@dataclass(slots=True)
class Tally:
    """What became of the items of an import; `total` is the sum of the five kinds.

    `strangers` of them named another user, `deleted` were deleted here before, `unreached` were left when the import
    was stopped; the last two count as skipped.
    """

    total: int = 0
    imported: int = 0
    duplicates: int = 0
    empty: int = 0
    skipped: int = 0
    failed: int = 0
    errors: list[tuple[int, str]] = field(default_factory=list)
    strangers: int = 0
    deleted: int = 0
    unreached: int = 0
    incomplete: bool = False

    def reject(self, index: int, reason: str) -> None:
        """Count an item that cannot be stored as it is."""
        self.failed += 1
        self._tell(index, reason)

    def skip(self, index: int, reason: str) -> None:
        """Count an item that is left out on purpose."""
        self.skipped += 1
        self._tell(index, reason)

    def _tell(self, index: int, reason: str) -> None:
        # A file may hold millions that are broken.
        if len(self.errors) < MAX_ERRORS_SHOWN:
            self.errors.append((index, reason))


@dataclass(slots=True)
class _Copies:
    """Which items of an import that keeps copies are in already: as many of a text as there were before it."""

    before: dict[tuple[str, str], int] = field(default_factory=dict)
    seen: Counter[tuple[str, str]] = field(default_factory=Counter)

    def known(self, connection: "apsw.Connection", new: NewMemory) -> bool:
        """Count one more of a text, and tell whether there was one for it."""
        same = (new.content, repr(new.metadata))
        if same not in self.before:
            self.before[same] = similar.count_same(connection, new)
        self.seen[same] += 1
        return self.seen[same] <= self.before[same]


@dataclass(frozen=True, slots=True)
class _Import:
    """What holds for all items of an import. `gone`: hashes of texts that were deleted and shall not come back.

    With `copies` a text is stored as often as it occurs.
    """

    tally: Tally
    revive: bool
    copies: _Copies | None
    gone: frozenset[str]


def read_file(path: str, roots: Sequence[Path], stopped: Callable[[], bool] = lambda: False) -> list[Any]:
    """Return the records of a file of any format that `formats` knows.

    Only regular files whose real path lies in one of `roots`, up to 256 MiB. Raises ImportFailed, also when stopped, or
    InvalidParameters; no message holds anything of the file.
    """
    return formats.records(_read(path, roots), stopped)


def import_items(
    database: Database,
    records: Sequence[Any],
    *,
    user_id: str,
    priority: str,
    skip_duplicates: bool,
    batch_size: int,
    revive: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Tally:
    """Store the items of one import for one user and return what became of each.

    All are validated before the first is stored. Each is atomic; the write lock is released after every `batch_size`
    of them, and there, as while they are validated, `stopped` is asked whether to leave the rest. Ids, times, metadata
    and priorities that an item brings are kept, its user is not. A rerun changes nothing: known ids and, with
    `skip_duplicates`, known texts are duplicates; without it, as many of a text are stored as the import holds. An item
    with an id is skipped where that id, or its text under another one, was deleted here, unless it shall `revive`.
    Writes, in transactions of its own.
    """
    tally = Tally(total=len(records))
    valid = _validated(records, user_id, tally, stopped)
    if tally.unreached:
        return tally
    common = _Import(tally, revive, None if skip_duplicates else _Copies(), _gone(database, user_id, valid))
    # The same items are the same session, also where an import that was broken off is run again.
    content = hashlib.sha256("\0".join(item.content for _, item in valid).encode())
    batch = f"{talks.BATCH}{content.hexdigest()[:16]}"
    for start in range(0, len(valid), batch_size):
        if stopped():
            tally.unreached = len(valid) - start
            tally.skipped += tally.unreached
            break
        with database.write() as connection:
            for index, item in valid[start : start + batch_size]:
                new = NewMemory(
                    user_id,
                    item.content,
                    item.metadata,
                    priority=item.priority or priority,
                    id=item.id,
                    created_at=item.created_at,
                    updated_at=item.updated_at,
                    batch=item.past.batch if item.past else batch,
                    copy=item.past.copy if item.past else None,
                )
                if item.past and item.past.deleted:
                    _store_deleted(connection, tally, index, new, item.past)
                else:
                    _store(connection, common, index, new, item)
        progress(min(start + batch_size, len(valid)), len(valid))
    return tally


def _validated(
    records: Sequence[Any], user_id: str, tally: Tally, stopped: Callable[[], bool]
) -> list[tuple[int, Item]]:
    valid = []
    for index, record in enumerate(records):
        if index and index % formats.ASK_EVERY == 0 and stopped():
            tally.unreached = tally.total - tally.empty - tally.failed
            tally.skipped += tally.unreached
            break
        try:
            item = formats.item_of(record)
        except InvalidParameters as error:
            tally.reject(index, error.message)
            continue
        if item is None:
            tally.empty += 1
        else:
            tally.strangers += item.user_id not in (None, user_id)
            valid.append((index, item))
    return valid


def _gone(database: Database, user_id: str, items: Sequence[tuple[int, Item]]) -> frozenset[str]:
    if not any(item.id for _, item in items):
        return frozenset()
    with database.read() as connection:
        return frozenset(map(text_hash, history.gone_texts(connection, user_id)))


def _store(connection: "apsw.Connection", common: _Import, index: int, new: NewMemory, item: Item) -> None:
    """Store one item, with its history where it brings one and the memory is new here, or count why not."""
    tally, past = common.tally, item.past
    owner, lives = _owner(connection, new)
    if owner not in (None, new.user_id):
        # A stranger's, be his memory deleted or not: this one gets an id of its own, the same at every run.
        new = replace(new, id=formats.derived_id(new.user_id, str(new.id), new.content))
        owner, lives = _owner(connection, new)
    if owner and lives:
        if store.find(connection, new.user_id, str(new.id)).content == new.content:
            tally.duplicates += 1
        else:
            tally.skip(index, "its id is already in use for another text; an import overwrites nothing")
        return
    gone = owner is not None
    if not common.revive and (gone or _was_deleted(connection, common, new, past)):
        tally.deleted += 1
        tally.skip(index, "it was deleted here; r3-lite import --revive brings it back")
        return
    if common.copies and new.id is None and common.copies.known(connection, new):
        tally.duplicates += 1
        return
    once = common.copies is None
    if once and item.stated:
        if _is_stated(connection, new):
            tally.duplicates += 1
            return
        once = False
    added = store.insert(connection, new, check_duplicates=once, near=False, action="restored" if gone else "created")
    tally.duplicates += added.duplicate
    tally.imported += not added.duplicate
    if past and past.versions and not (added.duplicate or gone):
        _write_history(connection, new, added.id, past)


def _owner(connection: "apsw.Connection", new: NewMemory) -> tuple[str | None, bool]:
    return (history.owner(connection, new.id) if new.id else None) or (None, False)


def _was_deleted(connection: "apsw.Connection", common: _Import, new: NewMemory, past: Past | None) -> bool:
    """Tell whether a text that comes under a new id was known under another one, which was deleted, and is gone.

    An export of ours has an id of its own for each memory: there two of a text are two.
    """
    if not common.gone or new.id is None or past or text_hash(new.content) not in common.gone:
        return False
    return not store.of_text(connection, new.user_id, new.content, 1)


def _is_stated(connection: "apsw.Connection", new: NewMemory) -> bool:
    """Tell whether a memory with this text says all of this metadata, made to say it if it lacks some. Writes."""
    known = store.of_text(connection, new.user_id, new.content, MAX_SAME)
    if any(new.metadata.items() <= record.metadata.items() for record in known):
        return True
    for record in known:
        old = record.metadata
        merged = {**old, **new.metadata}
        contradicts = any(old[key] != value for key, value in new.metadata.items() if key in old)
        if not contradicts and len(history.to_json(merged)) <= MAX_METADATA:
            store.change(connection, record, record.content, merged, record.priority)
            return True
    return False


def _store_deleted(connection: "apsw.Connection", tally: Tally, index: int, new: NewMemory, past: Past) -> None:
    """Store the history of a memory that was deleted where it comes from, so that it can be restored here too."""
    owner, _ = (history.owner(connection, new.id) if new.id else None) or (None, False)
    if new.id is None or owner not in (None, new.user_id):
        tally.skip(index, "it is deleted, and its id cannot be kept here")
    elif owner is not None:
        tally.duplicates += 1
    else:
        _write_history(connection, new, new.id, past)
        tally.imported += 1


def _write_history(connection: "apsw.Connection", new: NewMemory, memory_id: str, past: Past) -> None:
    versions = [history.Version(**version) for version in past.versions]
    history.write(connection, new.user_id, memory_id, versions, new.created_at or versions[0].timestamp, new.batch)


def _read(path: str, roots: Sequence[Path]) -> bytes:
    """Open without following a link at the end or blocking on a device, then check what was really opened."""
    if "\0" in path or "://" in path or path.startswith(("\\\\", "//")):
        raise InvalidParameters("file_path is the path of a local file, not an address.")
    refused = InvalidParameters(
        "file_path must name a regular file in the home or temporary folder, or below a folder of R3_IMPORT_ROOTS."
    )
    try:
        given = Path(path).expanduser()
        if not given.is_absolute():
            given = Path.home() / given
        folder = given.parent.resolve(strict=True)
        if not any(folder.is_relative_to(root) for root in roots):
            raise refused
        descriptor = os.open(
            folder / given.name,
            os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0),
        )
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            os.close(descriptor)
            raise refused
    except (OSError, RuntimeError, ValueError) as error:
        raise _unreadable(error) from None
    with os.fdopen(descriptor, "rb") as file:
        if not _lies_in(folder, given.name, status):
            raise refused
        if status.st_size > MAX_FILE_BYTES:
            raise InvalidParameters("The file is larger than 256 MiB. Split it and import the parts.")
        return file.read(MAX_FILE_BYTES + 1)


def _lies_in(folder: Path, name: str, status: os.stat_result) -> bool:
    """Tell whether what was opened lies where it was looked for: the folder may have been swapped for a link."""
    try:
        there = (folder / name).stat(follow_symlinks=False)
        return os.path.samestat(status, there) and folder.resolve() == folder
    except OSError:
        return False


def _unreadable(error: Exception) -> ImportFailed | InvalidParameters:
    if isinstance(error, FileNotFoundError):
        return ImportFailed("There is no file at file_path. Give the absolute path of a JSON or JSON Lines file.")
    return ImportFailed("The file at file_path cannot be read. Check its permissions; links are not followed.")

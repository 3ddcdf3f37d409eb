"""Import of memories from files: what may be read, the known formats, item by item into the store."""

import itertools
import json
import math
import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from r3_lite import history, store, talks
from r3_lite.clock import ID_PATTERN, now_text, parse_time, to_text
from r3_lite.db import Database
from r3_lite.errors import ImportFailed, InvalidParameters
from r3_lite.limits import check_content, check_metadata
from r3_lite.store import NewMemory

MAX_FILE_BYTES = 256 * 1024 * 1024
MAX_ERRORS_SHOWN = 50
_TEXT_KEYS = ("memory", "content", "text")
_LIST_KEYS = ("results", "memories")
_PRIORITIES = {"critical": "critical", "high": "high", "medium": "medium", "normal": "medium", "low": "low"}
# An id of another program is kept when it cannot be mistaken for text.
_FOREIGN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")


@dataclass(slots=True)
class Tally:
    """What became of the items of an import; `total` is the sum of all the others."""

    total: int = 0
    imported: int = 0
    duplicates: int = 0
    empty: int = 0
    skipped: int = 0
    failed: int = 0
    errors: list[tuple[int, str]] = field(default_factory=list)

    def reject(self, index: int, reason: str) -> None:
        """Count an item that cannot be stored as it is."""
        self.failed += 1
        self.errors.append((index, reason))


def read_json_file(path: str, roots: Sequence[Path]) -> list[Any]:
    """Return the items of a JSON or JSON Lines file: an array, {"results": […]}, {"memories": […]} or one a line.

    Only regular files whose real path lies in one of `roots`, up to 256 MiB, in any Unicode encoding. Raises
    ImportFailed or InvalidParameters; no message holds anything of the file.
    """
    text = _decode(_read(path, roots))
    try:
        document = _loads(text)
    except ValueError:
        return list(_json_lines(text))
    if isinstance(document, dict):
        lists = [document[key] for key in _LIST_KEYS if isinstance(document.get(key), list)]
        if not lists and any(key in document for key in _TEXT_KEYS):
            return [document]
        document = list(itertools.chain(*lists)) if lists else None
    if not isinstance(document, list):
        raise ImportFailed(
            "The file holds no list of memories: expected an array, or an object with results or memories."
        )
    return document


def import_items(
    database: Database,
    items: Sequence[Any],
    *,
    user_id: str,
    priority: str,
    skip_duplicates: bool,
    batch_size: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Tally:
    """Store the items of one import for one user and return what became of each.

    All are validated before the first is stored. Each is atomic; the write lock is released after every
    `batch_size` of them. Ids, times, metadata and priorities that an item brings are kept. A rerun changes
    nothing: known ids and, with `skip_duplicates`, known texts are counted as duplicates.
    """
    tally = Tally(total=len(items))
    batch = f"{talks.BATCH}{now_text()}"
    valid = list(_validated(items, user_id, priority, batch, tally))
    for start in range(0, len(valid), batch_size):
        with database.write() as connection:
            for index, new in valid[start : start + batch_size]:
                owner, live = (history.owner(connection, new.id) if new.id else None) or (user_id, False)
                if owner == user_id and live:
                    _count_known(tally, index, store.find(connection, user_id, str(new.id)).content == new.content)
                    continue
                if owner != user_id:
                    new = replace(new, id=None)
                added = store.insert(connection, new, check_duplicates=skip_duplicates, near=False)
                tally.duplicates += added.duplicate
                tally.imported += not added.duplicate
        progress(min(start + batch_size, len(valid)), len(valid))
    return tally


def _count_known(tally: Tally, index: int, same: bool) -> None:
    if same:
        tally.duplicates += 1
    else:
        tally.skipped += 1
        tally.errors.append((index, "its id is already in use for another text; an import overwrites nothing"))


def _validated(
    items: Sequence[Any], user_id: str, priority: str, batch: str, tally: Tally
) -> Iterator[tuple[int, NewMemory]]:
    for index, item in enumerate(items):
        try:
            new = _parse(item, user_id, priority, batch)
        except InvalidParameters as error:
            tally.reject(index, error.message)
            continue
        if new is None:
            tally.empty += 1
        else:
            yield index, new


def _parse(item: Any, user_id: str, priority: str, batch: str) -> NewMemory | None:
    if isinstance(item, str):
        item = {"content": item}
    if not isinstance(item, dict):
        raise InvalidParameters("not an object with memory, content or text")
    given = [item[key] for key in _TEXT_KEYS if item.get(key) is not None]
    content = next((text for text in given if text != ""), given[0] if given else None)
    if content is None:
        raise InvalidParameters("has no memory, content or text")
    if not isinstance(content, str):
        raise InvalidParameters("its text is not a string")
    if not content.strip():
        return None
    metadata = {} if item.get("metadata") is None else item["metadata"]
    if not isinstance(metadata, dict):
        raise InvalidParameters("its metadata is not an object")
    created_at = _time(item, "created_at")
    return NewMemory(
        user_id=user_id,
        content=check_content(content),
        metadata=check_metadata(metadata),
        priority=_PRIORITIES.get(str(item.get("priority")).strip().lower(), priority),
        id=_id(item.get("id")),
        created_at=created_at,
        updated_at=_time(item, "updated_at") or created_at,
        batch=batch,
    )


def _time(item: dict[str, Any], key: str) -> str | None:
    value = item.get(key)
    if value is None or value == "":
        return None
    moment = parse_time(value)
    if moment is None:
        raise InvalidParameters(f"its {key} is not an ISO 8601 time")
    return to_text(moment)


def _id(value: Any) -> str | None:
    if isinstance(value, str) and (ID_PATTERN.fullmatch(value) or _FOREIGN_ID.fullmatch(value)):
        return value
    return None


def _loads(text: str) -> Any:
    try:
        return json.loads(text, parse_int=_integer)
    except RecursionError:
        raise ImportFailed("The file is nested too deeply for a list of memories. Nothing was imported.") from None


def _integer(digits: str) -> float:
    # Python refuses to read numbers of thousands of digits; infinity is refused later, with its item alone.
    try:
        return int(digits)
    except ValueError:
        return math.inf


def _json_lines(text: str) -> Iterator[Any]:
    # Not splitlines(): JSON may hold line separators of Unicode as they are.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield _loads(line)
            except ValueError:
                raise ImportFailed(
                    f"The file is neither JSON nor JSON Lines (line {number} is not JSON). Nothing was imported."
                ) from None


def _decode(data: bytes) -> str:
    try:
        # By the byte order mark or, without one, by where the zero bytes of the first characters are.
        return data.decode(json.detect_encoding(data))
    except UnicodeDecodeError:
        raise ImportFailed("The file is not UTF-8, UTF-16 or UTF-32 text. Nothing was imported.") from None


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

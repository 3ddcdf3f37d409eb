"""What each memory was after every change, kept when it is deleted: the versions, and whose an id is.

All functions take a connection inside a transaction of `Database.read()` or `Database.write()`.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import apsw

from r3_lite.clock import ID_PATTERN, now_text
from r3_lite.errors import MemoryNotFound

Action = Literal["created", "updated", "deleted", "restored", "merged"]

_END_OF_TIME = "9999-12-31T23:59:59.999999Z"

# The versions whose time ended before a moment: when the next one came or, of a memory that is gone, with the last.
_ENDED = """
    SELECT h.memory_id, h.version FROM history AS h
    LEFT JOIN history AS next ON next.memory_id = h.memory_id
        AND next.version = (SELECT min(version) FROM history WHERE memory_id = h.memory_id AND version > h.version)
    WHERE coalesce(next.timestamp, h.timestamp) < ?
      AND (next.version IS NOT NULL OR NOT EXISTS (SELECT 1 FROM memories WHERE id = h.memory_id))"""


@dataclass(frozen=True, slots=True)
class Version:
    """One entry of a memory's history: its state after `action`."""

    version: int
    action: Action
    content: str
    metadata: dict[str, Any]
    priority: str
    timestamp: str


def append(connection: apsw.Connection, action: Action, *, seq: int | None = None, user_id: str = "") -> None:
    """Append the present state of one memory (its row), or of all of a user, to their histories. Writes."""
    where = "m.user_id = ?" if seq is None else "m.seq = ?"
    connection.execute(
        f"""INSERT INTO history
                (memory_id, version, user_id, action, content, metadata, priority, timestamp, created_at, batch)
            SELECT m.id, (SELECT coalesce(max(version), 0) + 1 FROM history WHERE memory_id = m.id),
                   m.user_id, ?, m.content, m.metadata, m.priority, max(m.updated_at, ?), m.created_at, m.batch
            FROM memories AS m WHERE {where}""",
        (action, now_text() if action in ("deleted", "merged") else "", user_id if seq is None else seq),
    )


def versions(connection: apsw.Connection, user_id: str, memory_id: str, limit: int) -> tuple[int, list[Version]]:
    """Return how many versions a memory of the user has, and its newest `limit` in order, deleted or not.

    Raises MemoryNotFound for an id without history.
    """
    total = 0
    if memory_id.isprintable():
        total = connection.execute(
            "SELECT count(*) FROM history WHERE memory_id = ? AND user_id = ?", (memory_id, user_id)
        ).get
    if not total:
        raise not_found(memory_id)
    rows = connection.execute(
        """SELECT version, action, content, metadata, priority, timestamp FROM history
           WHERE memory_id = ? AND user_id = ? ORDER BY version DESC LIMIT ?""",
        (memory_id, user_id, limit),
    ).fetchall()
    return total, [_version(*row) for row in reversed(rows)]


def states(connection: apsw.Connection, user_id: str, memory_id: str) -> list[dict[str, Any]]:
    """Return all versions of a memory, oldest first, as an export holds them."""
    rows: Iterable[Any] = connection.execute(
        """SELECT version, action, content, metadata, priority, timestamp FROM history
           WHERE memory_id = ? AND user_id = ? ORDER BY version""",
        (memory_id, user_id),
    )
    return [asdict(_version(*row)) for row in rows]


def deleted(connection: apsw.Connection, user_id: str | None) -> Iterator[tuple[str, str]]:
    """Yield (user, id) of the memories of a user, or of all, that are gone but have a history, by id."""
    rows: Iterator[tuple[str, str]] = connection.execute(
        """SELECT DISTINCT user_id, memory_id FROM history WHERE (?1 IS NULL OR user_id = ?1)
           AND NOT EXISTS (SELECT 1 FROM memories WHERE id = memory_id) ORDER BY memory_id, user_id""",
        (user_id,),
    )
    return rows


def gone(connection: apsw.Connection, user_id: str, limit: int) -> list[tuple[str, Version]]:
    """Return (id, last version) of the user's memories that are gone, those that went last first."""
    rows: Iterable[Any] = connection.execute(
        """SELECT memory_id, version, action, content, metadata, priority, timestamp FROM history AS h
           WHERE user_id = ? AND NOT EXISTS (SELECT 1 FROM memories WHERE id = h.memory_id)
             AND version = (SELECT max(version) FROM history WHERE memory_id = h.memory_id)
           ORDER BY timestamp DESC, memory_id DESC LIMIT ?""",
        (user_id, limit),
    )
    return [(memory_id, _version(*row)) for memory_id, *row in rows]


def gone_texts(connection: apsw.Connection, user_id: str) -> Iterator[str]:
    """Yield the last texts of the user's memories that were deleted, or merged into others, and are gone."""
    rows: Iterable[tuple[str]] = connection.execute(
        """SELECT content FROM history AS h WHERE user_id = ? AND action IN ('deleted', 'merged')
           AND NOT EXISTS (SELECT 1 FROM memories WHERE id = h.memory_id)""",
        (user_id,),
    )
    return (content for (content,) in rows)


def origin(connection: apsw.Connection, user_id: str, memory_id: str) -> tuple[str, str | None]:
    """Return when a memory with a history was made, and its batch; of a deleted one too."""
    found: tuple[str, str | None] = connection.execute(
        "SELECT created_at, batch FROM history WHERE memory_id = ? AND user_id = ? ORDER BY version DESC LIMIT 1",
        (memory_id, user_id),
    ).get
    return found


def write(
    connection: apsw.Connection,
    user_id: str,
    memory_id: str,
    versions: Iterable[Version],
    created_at: str,
    batch: str | None = None,
) -> None:
    """Make these versions the whole history of a memory, as an export holds it. Writes."""
    connection.execute("DELETE FROM history WHERE memory_id = ? AND user_id = ?", (memory_id, user_id))
    connection.executemany(
        """INSERT INTO history
               (memory_id, version, user_id, action, content, metadata, priority, timestamp, created_at, batch)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (
            (
                memory_id,
                v.version,
                user_id,
                v.action,
                v.content,
                to_json(v.metadata),
                v.priority,
                v.timestamp,
                created_at,
                batch,
            )
            for v in versions
        ),
    )


def expire(connection: apsw.Connection, before: str, limit: int) -> int:
    """Remove up to `limit` versions that had had their time before a moment, and return how many. Writes.

    A version has its time until the next one comes; the last one of a deleted memory is taken to end with it. What a
    living memory is at present always stays.
    """
    connection.execute(
        f"DELETE FROM history WHERE (memory_id, version) IN (SELECT memory_id, version FROM ({_ENDED}) LIMIT ?)",
        (before, limit),
    )
    return connection.changes()


def has_expired(connection: apsw.Connection, before: str) -> bool:
    """Tell whether `expire` would remove anything. Reads only."""
    return bool(connection.execute(f"SELECT EXISTS ({_ENDED})", (before,)).get)


def purge(
    connection: apsw.Connection,
    user_id: str,
    *,
    memory_id: str | None = None,
    deleted: bool = False,
    before: str | None = None,
) -> int:
    """Remove versions of a user's memories for good and return how many: of one memory, of all deleted ones, or all
    that had had their time `before` a moment. Writes.

    What a living memory is at present stays. Raises MemoryNotFound for an id without history.
    """
    if memory_id is not None:
        versions(connection, user_id, memory_id, 1)
    where, parameters = f"user_id = ? AND (memory_id, version) IN ({_ENDED})", [user_id, before or _END_OF_TIME]
    if memory_id is not None:
        where, parameters = where + " AND memory_id = ?", [*parameters, memory_id]
    if deleted:
        where += " AND memory_id NOT IN (SELECT id FROM memories)"
    connection.execute(f"DELETE FROM history WHERE {where}", parameters)
    return connection.changes()


def owner(connection: apsw.Connection, memory_id: str) -> tuple[str, bool] | None:
    """Return whose an id is, whoever that may be, and whether the memory is still there; None for a free id.

    For imports only: the id of a deleted memory stays its owner's, for its history does.
    """
    found: tuple[str, int] | None = connection.execute(
        """SELECT user_id, 1 FROM memories WHERE id = ?1
           UNION ALL SELECT user_id, 0 FROM history WHERE memory_id = ?1 LIMIT 1""",
        (memory_id,),
    ).get
    return (found[0], bool(found[1])) if found else None


def to_json(metadata: Mapping[str, Any]) -> str:
    """Return metadata as the file keeps it."""
    return json.dumps(metadata, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def from_json(text: str) -> dict[str, Any]:
    """Return metadata that the file holds. What no number can hold ("9e999"), as other programs write it, is a text."""
    metadata: dict[str, Any] = json.loads(text, parse_float=_finite)
    return metadata


def _finite(digits: str) -> float | str:
    number = float(digits)
    return number if math.isfinite(number) else digits


def not_found(memory_id: str) -> MemoryNotFound:
    """Return the error for an id that is unknown to this user; a malformed one is told apart."""
    if ID_PATTERN.fullmatch(memory_id):
        return MemoryNotFound(
            "No memory with this id for this user. Find the right id with search_memory or get_all_memories."
        )
    return MemoryNotFound(
        "This is not a whole memory id; ids look like mem_ and 23 characters. "
        "Copy the full id from search_memory or get_all_memories."
    )


def _version(number: int, action: Action, content: str, metadata: str, priority: str, timestamp: str) -> Version:
    return Version(number, action, content, from_json(metadata), priority, timestamp)

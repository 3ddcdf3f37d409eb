"""What each memory was after every change, kept when it is deleted: the versions, and whose an id is.

All functions take a connection inside a transaction of `Database.read()` or `Database.write()`.
"""

import json
from dataclasses import dataclass
from typing import Any, Literal

import apsw

from r3_lite.clock import ID_PATTERN, now_text
from r3_lite.errors import MemoryNotFound

Action = Literal["created", "updated", "deleted", "restored", "merged"]


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
        f"""INSERT INTO history (memory_id, version, user_id, action, content, metadata, priority, timestamp)
            SELECT m.id, (SELECT coalesce(max(version), 0) + 1 FROM history WHERE memory_id = m.id),
                   m.user_id, ?, m.content, m.metadata, m.priority, max(m.updated_at, ?)
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
    return total, [Version(v, a, c, json.loads(m), p, t) for v, a, c, m, p, t in reversed(rows)]


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

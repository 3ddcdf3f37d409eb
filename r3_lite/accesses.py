"""How often memories are asked for by their id: counted in the process, added to the file in batches."""

import json
import logging
import threading
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import apsw

from r3_lite.clock import now_text
from r3_lite.db import Database
from r3_lite.errors import R3Error

# How long a flush waits for the write lock: what cannot be written now is written the next time.
PATIENCE = 0.2

logger = logging.getLogger(__name__)


class Ranked(NamedTuple):
    """A memory among those worth keeping at hand, with the number of its owner's edits and that of its accesses."""

    seq: int
    id: str
    user_id: str
    edits: int
    accesses: int


class Tally:
    """The accesses that are not in the file yet. Thread-safe; a process that is killed loses them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[int, int] = {}
        self._last: dict[int, str] = {}

    def note(self, seq: int) -> None:
        """Count an access to a memory."""
        with self._lock:
            self._counts[seq] = self._counts.get(seq, 0) + 1
            self._last[seq] = now_text()

    def pending(self) -> dict[int, int]:
        """Return the counts that are not in the file, by seq."""
        with self._lock:
            return dict(self._counts)

    def flush(self, database: Database) -> None:
        """Add the counts to the file in a transaction of their own. Never raises: what cannot be written is kept."""
        with self._lock:
            counts, last = self._counts, self._last
            self._counts, self._last = {}, {}
        if not counts:
            return
        try:
            with database.write(timeout=PATIENCE) as connection:
                add(connection, counts, last)
        except R3Error as error:
            logger.debug("accesses are written later: %s", type(error).__name__)
            with self._lock:
                for seq, count in counts.items():
                    self._counts[seq] = self._counts.get(seq, 0) + count
                    self._last.setdefault(seq, last[seq])


def add(connection: apsw.Connection, counts: Mapping[int, int], last: Mapping[int, str]) -> None:
    """Add to the counts of memories; those that are gone are left out. Writes.

    The ranking sees the counts: the generations of the users concerned move on, so that no kept answer is in their way.
    """
    connection.executemany(
        """INSERT INTO accesses (memory, count, last_at) SELECT seq, ?, ? FROM memories WHERE seq = ?
           ON CONFLICT (memory) DO UPDATE
           SET count = count + excluded.count, last_at = max(last_at, excluded.last_at)""",
        [(count, last[seq], seq) for seq, count in counts.items()],
    )
    connection.execute(
        """UPDATE users SET generation = generation + 1 WHERE user_id IN (
               SELECT user_id FROM memories WHERE seq IN (SELECT value FROM json_each(?)))""",
        (json.dumps(list(counts)),),
    )


def counts(connection: apsw.Connection, seqs: Iterable[int]) -> dict[int, int]:
    """Return how often memories were asked for, as far as the file knows; those that never were are absent."""
    wanted = list(seqs)
    marks = ",".join("?" * len(wanted))
    rows: Iterable[Any] = connection.execute(f"SELECT memory, count FROM accesses WHERE memory IN ({marks})", wanted)
    return dict(rows)


def ranked(
    connection: apsw.Connection, limit: int, pending: Mapping[int, int], user_id: str | None = None
) -> list[Ranked]:
    """Return the memories most worth keeping at hand, of one user or of all: the most used, by priority, the newest.

    `pending` are counts that are not in the file. Looks at every memory.
    """
    rows = connection.execute(
        """WITH pending (seq, count) AS MATERIALIZED (SELECT CAST(key AS INTEGER), value FROM json_each(?1))
           SELECT m.seq, m.id, m.user_id, u.edits, coalesce(a.count, 0) + coalesce(p.count, 0) AS used
           FROM memories AS m JOIN users AS u ON u.user_id = m.user_id
           LEFT JOIN accesses AS a ON a.memory = m.seq LEFT JOIN pending AS p ON p.seq = m.seq
           WHERE ?2 IS NULL OR m.user_id = ?2
           ORDER BY used DESC,
               CASE m.priority WHEN 'critical' THEN 0 WHEN 'high' THEN 1 WHEN 'medium' THEN 2 ELSE 3 END,
               m.created_at DESC, m.seq DESC
           LIMIT ?3""",
        (json.dumps(pending), user_id, limit),
    )
    return [Ranked._make(row) for row in rows]

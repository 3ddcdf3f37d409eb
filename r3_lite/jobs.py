"""The work that answered calls still owe, as rows in the file: which memory needs a vector or its entities read.

Rows come from triggers and go in the transaction that writes the result. Work of the kind "embed" belongs to the
space of a model, work of the kind "extract" to none.
"""

from dataclasses import dataclass
from typing import Literal

import apsw

from r3_lite.clock import now_text

Kind = Literal["embed", "extract"]

# The space of work that belongs to no embedding model, and of a model that is not in the file yet.
NO_SPACE = 0
MAX_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Job:
    """A memory that is owed something, with its text: its vectors (`embed`), its entities (`extract`), or both."""

    memory: int
    user_id: str
    content: str
    embed: bool
    extract: bool

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of its rows."""
        return (*(("embed",) if self.embed else ()), *(("extract",) if self.extract else ()))


@dataclass(frozen=True, slots=True)
class JobState:
    """How unfinished work stands; `waiting` in seconds since it was owed."""

    memory_id: str
    kind: str
    attempts: int
    waiting: float
    last_error: str


def due(connection: apsw.Connection, space: int | None, limit: int) -> list[Job]:
    """Return the oldest memories with work that may be done now, at most `limit`. Reads only."""
    rows = connection.execute(
        """WITH due (memory, kind) AS (
               SELECT * FROM (SELECT memory, kind FROM jobs WHERE space = ?1 AND kind = 'embed'
                              AND attempts < ?3 AND not_before <= ?4 ORDER BY memory LIMIT ?2)
               UNION ALL
               SELECT * FROM (SELECT memory, kind FROM jobs WHERE space = 0 AND kind = 'extract'
                              AND attempts < ?3 AND not_before <= ?4 ORDER BY memory LIMIT ?2))
           SELECT m.seq, m.user_id, m.content, max(kind = 'embed'), max(kind = 'extract')
           FROM due JOIN memories AS m ON m.seq = due.memory GROUP BY m.seq ORDER BY m.seq LIMIT ?2""",
        (space or NO_SPACE, limit, MAX_ATTEMPTS, now_text()),
    )
    return [_job(*row) for row in rows]


def of_memory(connection: apsw.Connection, space: int | None, memory: int) -> Job | None:
    """Return what one memory is still owed, whatever its attempts, or None. Reads only."""
    row = connection.execute(
        """SELECT m.seq, m.user_id, m.content, max(j.kind = 'embed'), max(j.kind = 'extract')
           FROM jobs AS j JOIN memories AS m ON m.seq = j.memory
           WHERE j.memory = ?1 AND (j.space = ?2 OR j.kind = 'extract') GROUP BY m.seq""",
        (memory, space or NO_SPACE),
    ).get
    return _job(*row) if row else None


def strike(connection: apsw.Connection, space: int | None, kind: Kind, memory: int) -> None:
    """Remove one piece of work, in the write transaction that holds its result."""
    connection.execute(
        "DELETE FROM jobs WHERE space = ? AND kind = ? AND memory = ?", (_space(space, kind), kind, memory)
    )


def record_failure(connection: apsw.Connection, space: int | None, kind: Kind, memory: int, reason: str) -> None:
    """Note a failed attempt; the next waits 5 s, then four times as long each time. The caller's write transaction."""
    connection.execute(
        """UPDATE jobs SET attempts = attempts + 1, last_error = ?,
                  not_before = strftime('%Y-%m-%dT%H:%M:%f000Z', 'now', (5 << 2 * attempts) || ' seconds')
           WHERE space = ? AND kind = ? AND memory = ?""",
        (reason, _space(space, kind), kind, memory),
    )


def retry_failed(connection: apsw.Connection, space: int | None) -> None:
    """Give work that failed before new attempts; the caller's write transaction."""
    connection.execute(
        "UPDATE jobs SET attempts = 0, not_before = '' WHERE space IN (?, ?) AND attempts > 0",
        (NO_SPACE, space or NO_SPACE),
    )


def counts(connection: apsw.Connection, space: int | None) -> dict[str, int]:
    """Return how many memories have work that is {pending, failed} for good, over all users. Reads only."""
    pending, failed = connection.execute(
        """SELECT count(DISTINCT memory) FILTER (WHERE attempts < ?1),
                  count(DISTINCT memory) FILTER (WHERE attempts >= ?1)
           FROM jobs WHERE space IN (?2, ?3)""",
        (MAX_ATTEMPTS, NO_SPACE, space or NO_SPACE),
    ).get
    return {"pending": pending, "failed": failed}


def states(connection: apsw.Connection, space: int | None, limit: int) -> list[JobState]:
    """Return the oldest unfinished work and how it stands. Reads only."""
    rows = connection.execute(
        """SELECT m.id, j.kind, j.attempts, j.last_error,
                  max(0, round((julianday('now') - julianday(j.created_at)) * 86400, 1))
           FROM jobs AS j JOIN memories AS m ON m.seq = j.memory
           WHERE j.space IN (?, ?) ORDER BY j.memory, j.kind LIMIT ?""",
        (NO_SPACE, space or NO_SPACE, limit),
    )
    return [JobState(memory_id, kind, attempts, waiting, error) for memory_id, kind, attempts, error, waiting in rows]


def _job(memory: int, user_id: str, content: str, embed: int, extract: int) -> Job:
    return Job(memory, user_id, content, bool(embed), bool(extract))


def _space(space: int | None, kind: Kind) -> int:
    return NO_SPACE if kind == "extract" else space or NO_SPACE

"""Who wrote which memories, and what was said before and after each: the turns of talks. Reads only."""

from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import Any

import apsw


def neighbours(connection: apsw.Connection, seqs: Iterable[int]) -> dict[int, tuple[int | None, int | None]]:
    """Return the memories stored before and after each one in its session, by seq; memories without one are absent."""
    wanted = list(seqs)
    marks = ",".join("?" * len(wanted))
    rows: Iterable[Any] = connection.execute(
        f"""SELECT seq,
                   (SELECT max(b.seq) FROM memories AS b
                    WHERE b.user_id = m.user_id AND b.session = m.session AND b.seq < m.seq),
                   (SELECT min(a.seq) FROM memories AS a
                    WHERE a.user_id = m.user_id AND a.session = m.session AND a.seq > m.seq)
            FROM memories AS m WHERE seq IN ({marks}) AND session IS NOT NULL""",
        wanted,
    )
    return {seq: (before, after) for seq, before, after in rows}


def neighbours_in_time(
    connection: apsw.Connection, seqs: Iterable[int], gap: timedelta
) -> dict[int, tuple[int | None, int | None]]:
    """Return the memories stored before and after each one in its session or, without one, by the user, by seq.

    Only those that have an author and are at most `gap` apart in time.
    """
    wanted, seconds = list(seqs), gap.total_seconds()
    marks = ",".join("?" * len(wanted))
    rows: Iterable[Any] = connection.execute(
        f"""SELECT m.seq, before.seq, after.seq FROM memories AS m
            LEFT JOIN memories AS before
                ON before.seq = (SELECT max(b.seq) FROM memories AS b
                                 WHERE b.user_id = m.user_id AND b.session IS m.session AND b.seq < m.seq)
                AND before.author IS NOT NULL
                AND round(abs(julianday(m.created_at) - julianday(before.created_at)) * 86400) <= ?
            LEFT JOIN memories AS after
                ON after.seq = (SELECT min(a.seq) FROM memories AS a
                                WHERE a.user_id = m.user_id AND a.session IS m.session AND a.seq > m.seq)
                AND after.author IS NOT NULL
                AND round(abs(julianday(after.created_at) - julianday(m.created_at)) * 86400) <= ?
            WHERE m.seq IN ({marks})""",
        (seconds, seconds, *wanted),
    )
    return {seq: (before, after) for seq, before, after in rows}


def authors(connection: apsw.Connection, user_id: str) -> list[str]:
    """Return the distinct authors of the user's memories. Skips from one to the next in the index."""
    rows = connection.execute(
        """WITH RECURSIVE a (name) AS (
               SELECT min(author) FROM memories WHERE user_id = ?1 AND author > ''
               UNION ALL
               SELECT (SELECT min(author) FROM memories WHERE user_id = ?1 AND author > a.name)
               FROM a WHERE a.name IS NOT NULL LIMIT 1001)
           SELECT name FROM a WHERE name IS NOT NULL""",
        (user_id,),
    )
    return [name for (name,) in rows]


def written_by(connection: apsw.Connection, author: str, seqs: Collection[int]) -> set[int]:
    """Return those of the memories that this author wrote."""
    marks = ",".join("?" * len(seqs))
    rows: Iterable[Any] = connection.execute(
        f"SELECT seq FROM memories WHERE seq IN ({marks}) AND author = ?", (*seqs, author)
    )
    return {seq for (seq,) in rows}

"""Embeddings in the file: spaces, chunks, nearest neighbours, and what they need to stay in step.

One space per embedding model. A query names its space and never sees another. All of it is derived from the
memories: it can be dropped and is then owed again.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import apsw

from r3_lite.clock import now_text
from r3_lite.filters import Clause
from r3_lite.jobs import Job, strike

# Candidates by sign bits that are then compared exactly: recall@20 of .991 on 55,811 real MiniLM vectors.
CANDIDATES = 400
# The most that vec0 returns for one query.
MAX_NEIGHBOURS = 4096
# Rows per vec0 chunk: a query for 400 neighbours takes half the time it takes with 256, and a first memory no megabyte.
_CHUNK_SIZE = 64


def open_space(connection: apsw.Connection, name: str, dimension: int, fingerprint: str) -> int:
    """Return the id of a model's space, making it, its bit table and a job per memory on first use.

    Runs in the caller's write transaction. `dimension` must be a multiple of 8 (sqlite-vec's bit vectors).
    """
    space = find_space(connection, fingerprint)
    if space is None:
        connection.execute(
            "INSERT INTO spaces (name, dimension, fingerprint, used_at) VALUES (?, ?, ?, ?)",
            (name, dimension, fingerprint, now_text()),
        )
        space = connection.last_insert_rowid()
        connection.execute(
            "INSERT INTO jobs (space, kind, memory, created_at) SELECT ?, 'embed', seq, updated_at FROM memories",
            (space,),
        )
    _make_bits(connection, space)
    connection.execute("UPDATE spaces SET used_at = ? WHERE id = ?", (now_text(), space))
    return space


def find_space(connection: apsw.Connection, fingerprint: str) -> int | None:
    """Return the id of the space with this fingerprint, or None. Reads only."""
    found: int | None = connection.execute("SELECT id FROM spaces WHERE fingerprint = ?", (fingerprint,)).get
    return found


def drop_space(connection: apsw.Connection, space: int) -> None:
    """Remove a space with its vectors and jobs, in the caller's write transaction."""
    connection.execute("DELETE FROM spaces WHERE id = ?", (space,))
    connection.execute(f"DROP TABLE IF EXISTS bits_{space}")


def nearest(
    connection: apsw.Connection, space: int, query: bytes, user_id: str, where: Clause, limit: int
) -> list[tuple[int, float]]:
    """Return the user's memories nearest to a unit vector as (seq, cosine), best first.

    Without a filter: as many candidates by the Hamming distance of sign bits as `CANDIDATES`, or `limit` if that is
    more, compared exactly; all of them are returned, for they cost nothing more. With a filter, or where the chunks
    of a few long texts fill the places: every memory that passes is compared exactly, and `limit` are returned. The
    best chunk of a memory counts.
    """
    if where[0] == "1":
        places = min(max(CANDIDATES, limit), MAX_NEIGHBOURS)
        rows: list[Any] = connection.execute(
            f"""WITH near AS MATERIALIZED (
                    SELECT id FROM bits_{space}
                    WHERE bits MATCH vec_quantize_binary(vec_f32(?)) AND k = ? AND user_id = ?)
                SELECT c.memory, 1 - min(vec_distance_cosine(c.embedding, ?)) AS cosine, count(*)
                FROM near JOIN chunks AS c ON c.id = near.id
                GROUP BY c.memory ORDER BY cosine DESC, c.memory DESC""",
            (query, places, user_id, query),
        ).fetchall()
        if len(rows) >= limit or sum(chunks for *_, chunks in rows) < places:
            return [(seq, cosine) for seq, cosine, _ in rows]
    # The filter first, then the chunks of what passes: left to itself SQLite reads every chunk of the space.
    found: list[Any] = connection.execute(
        f"""WITH passing AS MATERIALIZED (SELECT m.seq FROM memories AS m WHERE m.user_id = ? AND {where[0]})
            SELECT p.seq, 1 - min(vec_distance_cosine(c.embedding, ?)) AS cosine
            FROM passing AS p CROSS JOIN chunks AS c ON c.memory = p.seq AND c.space = ?
            GROUP BY p.seq ORDER BY cosine DESC, p.seq DESC LIMIT ?""",
        (user_id, *where[1], query, space, limit),
    ).fetchall()
    return found


def cosines(connection: apsw.Connection, space: int, query: bytes, memories: Collection[int]) -> dict[int, float]:
    """Return the exact cosine of each of the memories that has a vector, by seq."""
    marks = ",".join("?" * len(memories))
    return dict(
        connection.execute(
            f"""SELECT memory, 1 - min(vec_distance_cosine(embedding, ?)) FROM chunks
                WHERE space = ? AND memory IN ({marks}) GROUP BY memory""",
            (query, space, *memories),
        )
    )


def cosines_in_context(
    connection: apsw.Connection, space: int, query: bytes, previous: Mapping[int, int]
) -> dict[int, float]:
    """Return the cosine of each memory taken together with the one before it, by seq.

    The two are added as unit vectors, which measures as well as embedding both texts as one and costs no model
    run. `previous` maps a memory to the one before; the last chunk of that and the best of the memory count.
    """
    pairs = ",".join("(?,?)" for _ in previous)
    if not pairs:
        return {}
    return dict(
        connection.execute(
            f"""WITH pairs (memory, previous) AS (VALUES {pairs})
                SELECT p.memory, coalesce(1 - min(vec_distance_cosine(vec_add(c.embedding, before.embedding), ?)), 0)
                FROM pairs AS p
                JOIN chunks AS c ON c.memory = p.memory AND c.space = ?
                JOIN chunks AS before
                    ON before.id = (SELECT max(id) FROM chunks WHERE memory = p.previous AND space = ?)
                GROUP BY p.memory""",
            (*(seq for pair in previous.items() for seq in pair), query, space, space),
        )
    )


def store_vectors(connection: apsw.Connection, space: int, done: Mapping[Job, Sequence[bytes]]) -> int:
    """Write the chunk vectors of embedded memories and strike their jobs; return how many were written.

    Runs in the caller's write transaction. A memory that vanished or changed while it was embedded is left to
    its new job. The generations of the users concerned move on: their searches can now answer better.
    """
    written = 0
    users: set[str] = set()
    for job, embeddings in done.items():
        current = connection.execute("SELECT content FROM memories WHERE seq = ?", (job.memory,)).get
        if current != job.content:
            continue
        remove_vectors(connection, job.memory, space)
        for embedding in embeddings:
            connection.execute(
                "INSERT INTO chunks (memory, space, embedding) VALUES (?, ?, ?)",
                (job.memory, space, embedding),
            )
            connection.execute(
                f"INSERT INTO bits_{space} (id, bits, user_id) VALUES (?, vec_quantize_binary(vec_f32(?)), ?)",
                (connection.last_insert_rowid(), embedding, job.user_id),
            )
        strike(connection, space, "embed", job.memory)
        users.add(job.user_id)
        written += 1
    for user_id in users:
        connection.execute("UPDATE users SET generation = generation + 1 WHERE user_id = ?", (user_id,))
    return written


def remove_vectors(connection: apsw.Connection, memory: int, space: int | None = None) -> None:
    """Drop a memory's chunks, in one space or all, with their bits; the caller's transaction.

    Where sqlite-vec is missing the bits stay behind; `heal` sweeps them.
    """
    rows: list[Any] = connection.execute(
        "SELECT id, space FROM chunks WHERE memory = ? AND space = coalesce(?, space)", (memory, space)
    ).fetchall()
    for chunk, owner in rows:
        if has_bits(connection, owner):
            connection.execute(f"DELETE FROM bits_{owner} WHERE id = ?", (chunk,))
    if rows:
        connection.execute("DELETE FROM chunks WHERE memory = ? AND space = coalesce(?, space)", (memory, space))


def remove_vectors_of_user(connection: apsw.Connection, user_id: str) -> None:
    """Drop the bits of all memories of a user; their chunks follow when the memories go, in the same transaction."""
    spaces: list[Any] = connection.execute("SELECT id FROM spaces").fetchall()
    for (space,) in spaces:
        if has_bits(connection, space):
            connection.execute(f"DELETE FROM bits_{space} WHERE user_id = ?", (user_id,))


def has_bits(connection: apsw.Connection, space: int) -> bool:
    """Tell whether the bit table of a space exists and its module is loaded."""
    try:
        connection.execute(f"SELECT 1 FROM bits_{space} LIMIT 0").fetchall()
    except apsw.SQLError:
        return False
    return True


def heal(connection: apsw.Connection, space: int) -> int:
    """Make the bit table hold exactly the space's chunks and give every bare memory a job; return the repairs.

    Runs in the caller's write transaction, after `out_of_step` found a reason to. Answers change by it: the
    generations of all users move on.
    """
    if not has_bits(connection, space):
        _make_bits(connection, space)
    orphans = connection.execute(
        f"SELECT id FROM bits_{space} WHERE id NOT IN (SELECT id FROM chunks WHERE space = ?)", (space,)
    ).fetchall()
    for (chunk,) in orphans:
        connection.execute(f"DELETE FROM bits_{space} WHERE id = ?", (chunk,))
    missing = connection.execute(
        f"""SELECT c.id, c.embedding, m.user_id FROM chunks AS c JOIN memories AS m ON m.seq = c.memory
            WHERE c.space = ? AND c.id NOT IN (SELECT id FROM bits_{space})""",
        (space,),
    ).fetchall()
    for chunk, embedding, user_id in missing:
        connection.execute(
            f"INSERT INTO bits_{space} (id, bits, user_id) VALUES (?, vec_quantize_binary(vec_f32(?)), ?)",
            (chunk, embedding, user_id),
        )
    before = connection.total_changes()
    connection.execute(
        """INSERT INTO jobs (space, kind, memory, created_at)
           SELECT ?1, 'embed', seq, updated_at FROM memories
           WHERE NOT EXISTS (SELECT 1 FROM chunks WHERE memory = seq AND space = ?1)
           ON CONFLICT DO UPDATE SET attempts = 0, not_before = '' WHERE attempts > 0""",
        (space,),
    )
    repairs = len(orphans) + len(missing) + connection.total_changes() - before
    if repairs:
        connection.execute("UPDATE users SET generation = generation + 1")
    return repairs


def out_of_step(connection: apsw.Connection, space: int) -> int:
    """Return how many chunks, bits and jobs do not fit together; 0 in a sound file. Reads only."""
    chunks = connection.execute("SELECT count(*) FROM chunks WHERE space = ?", (space,)).get
    # A missing table is a fault of its own: nothing can be written then.
    bits = connection.execute(f"SELECT count(*) FROM bits_{space}").get if has_bits(connection, space) else -1
    unowed = connection.execute(
        """SELECT count(*) FROM memories WHERE NOT EXISTS (SELECT 1 FROM chunks WHERE memory = seq AND space = ?1)
           AND NOT EXISTS (SELECT 1 FROM jobs WHERE memory = seq AND space = ?1)""",
        (space,),
    ).get
    return int(abs(chunks - bits) + unowed)


def without_vector(connection: apsw.Connection, space: int | None) -> int:
    """Return how many memories have no vector in a space, all of them where there is no space. Reads only."""
    return int(
        connection.execute(
            "SELECT count(*) FROM memories WHERE NOT EXISTS (SELECT 1 FROM chunks WHERE memory = seq AND space = ?)",
            (space,),
        ).get
    )


def is_indexed(connection: apsw.Connection, space: int, memory: int) -> bool:
    """Tell whether a memory has its vectors in a space. Reads only."""
    return bool(connection.execute("SELECT 1 FROM chunks WHERE memory = ? AND space = ? LIMIT 1", (memory, space)).get)


def _make_bits(connection: apsw.Connection, space: int) -> None:
    dimension = connection.execute("SELECT dimension FROM spaces WHERE id = ?", (space,)).get
    connection.execute(
        f"CREATE VIRTUAL TABLE IF NOT EXISTS bits_{space} USING vec0 "
        f"(id INTEGER PRIMARY KEY, bits bit[{dimension}], user_id TEXT, chunk_size={_CHUNK_SIZE})"
    )

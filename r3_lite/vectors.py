"""Embeddings in the file: spaces, chunks, nearest neighbours, and what they need to stay in step.

One space per embedding model. A query names its space and never sees another. All of it is derived from the
memories: it can be dropped and is then owed again.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import apsw

from r3_lite.clock import now_text
from r3_lite.codes import HeldCodes, code_of
from r3_lite.filters import EVERYTHING
from r3_lite.jobs import Job, strike
from r3_lite.scope import Scope

# Candidates by their codes that are then compared exactly: recall@20 of .999 on 32,375 real vectors; and the share of
# very many vectors, which lie closer together.
CANDIDATES, _CANDIDATE_SHARE = 200, 1_500
# Candidates that no longer exist are noticed; when there are so many, the codes in memory are read anew.
_MOST_GONE = CANDIDATES // 20


def open_space(connection: apsw.Connection, name: str, dimension: int, fingerprint: str) -> int:
    """Return the id of a model's space, making it and a job per memory on first use.

    Runs in the caller's write transaction. `dimension` must be a multiple of 8 (whole bytes of a code).
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
    connection.execute("UPDATE spaces SET used_at = ? WHERE id = ?", (now_text(), space))
    return space


def find_space(connection: apsw.Connection, fingerprint: str) -> int | None:
    """Return the id of the space with this fingerprint, or None. Reads only."""
    found: int | None = connection.execute("SELECT id FROM spaces WHERE fingerprint = ?", (fingerprint,)).get
    return found


def drop_space(connection: apsw.Connection, space: int) -> None:
    """Remove a space with its vectors and jobs, in the caller's write transaction."""
    connection.execute("DELETE FROM spaces WHERE id = ?", (space,))


def nearest(
    connection: apsw.Connection,
    codes: HeldCodes,
    space: int,
    query: bytes,
    scope: Scope,
    limit: int,
) -> list[tuple[int, float]]:
    """Return the memories in the scope nearest to a unit vector as (seq, cosine), best first; its best chunk counts.

    As many candidates by their codes as `CANDIDATES`, or `limit` if that is more, are compared
    exactly, and all of them are returned, for they cost nothing more. Fewer than `limit` are returned only if there
    are no more.
    """
    user_id = scope.user_id
    held = codes.of(connection, space, user_id)
    wanted = max(CANDIDATES, limit, len(held) // _CANDIDATE_SHARE)
    tried, reread = wanted, False
    while True:
        near = (held if scope.few is None else held.of_memories(scope.few)).nearest(query, tried)
        chosen = near
        if scope.few is None and scope.where != EVERYTHING:
            chosen = near.of_memories(scope.passing(near.memories.tolist()))
        found = _exact(connection, query, chosen.ids.tolist())
        if len(chosen) - len(found) > _MOST_GONE and not reread:
            codes.forget(space, user_id)
            held, reread = codes.of(connection, space, user_id), True
            continue
        best: dict[int, float] = {}
        for seq, cosine in found:
            best[seq] = max(best.get(seq, -1.0), cosine)
        # Many chunks of a few long texts may fill the places, or many memories that do not pass.
        if len(near) < tried or (len(chosen) >= wanted and len(best) >= limit):
            return sorted(best.items(), key=lambda pair: (-pair[1], -pair[0]))
        tried *= 4


def _exact(connection: apsw.Connection, query: bytes, chunks: Sequence[int]) -> list[tuple[int, float]]:
    """Return (seq, cosine) for each of the chunks that exist."""
    found: list[Any] = connection.execute(
        """SELECT memory, 1 - vec_distance_cosine(embedding, ?) FROM chunks
           WHERE id IN (SELECT value FROM json_each(?))""",
        (query, json.dumps(chunks)),
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
        connection.execute("DELETE FROM chunks WHERE memory = ? AND space = ?", (job.memory, space))
        connection.executemany(
            """INSERT INTO chunks (memory, space, user_id, code, embedding) VALUES (?, ?, ?, ?, ?)""",
            [(job.memory, space, job.user_id, code_of(embedding), embedding) for embedding in embeddings],
        )
        strike(connection, space, "embed", job.memory)
        users.add(job.user_id)
        written += 1
    for user_id in users:
        connection.execute("UPDATE users SET generation = generation + 1 WHERE user_id = ?", (user_id,))
    return written


def heal(connection: apsw.Connection, space: int) -> int:
    """Give every bare memory a job and take vectors of memories that are gone away; return the repairs.

    Runs in the caller's write transaction, after `out_of_step` found a reason to. Answers change by it: the
    generations of all users move on.
    """
    before = connection.total_changes()
    connection.execute("DELETE FROM chunks WHERE space = ? AND memory NOT IN (SELECT seq FROM memories)", (space,))
    connection.execute(
        """INSERT INTO jobs (space, kind, memory, created_at)
           SELECT ?1, 'embed', seq, updated_at FROM memories
           WHERE NOT EXISTS (SELECT 1 FROM chunks WHERE memory = seq AND space = ?1)
           ON CONFLICT DO UPDATE SET attempts = 0, not_before = '' WHERE attempts > 0""",
        (space,),
    )
    repairs = connection.total_changes() - before
    if repairs:
        connection.execute("UPDATE users SET generation = generation + 1")
    return repairs


def out_of_step(connection: apsw.Connection, space: int) -> int:
    """Return how many memories lack both a vector and a job, or are gone and have one. Reads only."""
    return int(
        connection.execute(
            """SELECT (SELECT count(*) FROM memories
                       WHERE NOT EXISTS (SELECT 1 FROM chunks WHERE memory = seq AND space = ?1)
                       AND NOT EXISTS (SELECT 1 FROM jobs WHERE memory = seq AND space = ?1))
                    + (SELECT count(*) FROM chunks WHERE space = ?1 AND memory NOT IN (SELECT seq FROM memories))""",
            (space,),
        ).get
    )


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

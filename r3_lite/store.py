"""Memories in the file: every statement on them, and the keyword index.

All functions take a connection inside a transaction of `Database.read()` or `Database.write()`; the ones that
change something say so. The keyword index, the counts, the generations and the jobs follow by triggers.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import apsw

from r3_lite import history, similar, wordforms
from r3_lite.clock import new_id, now_text
from r3_lite.dedupe import NEAR_MATCH, author_key, author_of, same_meaning
from r3_lite.filters import EVERYTHING, Clause
from r3_lite.similar import Similar
from r3_lite.text import space_out, text_hash

_COLUMNS = (
    "m.seq, m.id, m.user_id, m.content, m.metadata, m.priority, m.hash, m.created_at, m.updated_at, m.author, m.session"
)


class Record(NamedTuple):
    """One memory as the file holds it. Times are ISO 8601 UTC; `seq` is its row."""

    seq: int
    id: str
    user_id: str
    content: str
    metadata_json: str
    priority: str
    hash: str
    created_at: str
    updated_at: str
    author: str | None
    session: str | None

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata, parsed at each access: of the many candidates of a search few are shown."""
        return history.from_json(self.metadata_json)


@dataclass(frozen=True, slots=True)
class NewMemory:
    """What is to be stored. `id`, the times and `copy` are set only where a memory comes back or from elsewhere."""

    user_id: str
    content: str
    metadata: dict[str, Any] = field(default_factory=dict)
    priority: str = "medium"
    id: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    batch: str | None = None
    copy: int | None = None


@dataclass(frozen=True, slots=True)
class Added:
    """What an add came to: a new memory, or the id of the one that already says it."""

    seq: int
    id: str
    duplicate: bool
    similar: tuple[Similar, ...] = ()


def insert(
    connection: apsw.Connection,
    new: NewMemory,
    *,
    check_duplicates: bool = True,
    near: bool = True,
    action: history.Action = "created",
) -> Added:
    """Store a memory, or return the one of the same user that already says the same. Writes.

    The same text after normalisation is the same memory. So is a near match (word Jaccard >= 0.85) whose
    difference cannot change the meaning, unless both have an author and not the same. Other near matches are
    returned as `similar` beside the new memory.
    Without `near` only the same text counts, and nothing is looked up. `action` is what its history calls it.
    """
    digest = text_hash(new.content)
    near_matches: tuple[Similar, ...] = ()
    if check_duplicates:
        same = connection.execute(
            """SELECT seq, id FROM memories WHERE user_id = ? AND hash = ? AND copy = coalesce(?, copy)
               ORDER BY copy LIMIT 1""",
            (new.user_id, digest, new.copy),
        ).get
        if same:
            return Added(seq=same[0], id=same[1], duplicate=True)
        near_matches = similar.find_similar(connection, new.user_id, new.content) if near else ()
        for other in near_matches:
            if other.score >= NEAR_MATCH and same_meaning(other.content, new.content):
                seq, author = connection.execute("SELECT seq, author FROM memories WHERE id = ?", (other.id,)).get
                if len({author_of(new.metadata), author_key(author)} - {None}) < 2:
                    return Added(seq, other.id, duplicate=True)
    created_at = new.created_at or now_text()
    memory_id = new.id or new_id(new.created_at)
    connection.execute(
        """INSERT INTO memories
               (id, user_id, content, metadata, priority, hash, copy, created_at, updated_at, batch, spaced)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (
            memory_id,
            new.user_id,
            new.content,
            history.to_json(new.metadata),
            new.priority,
            digest,
            _next_copy(connection, new.user_id, digest, new.copy),
            created_at,
            new.updated_at or created_at,
            new.batch,
            space_out(new.content),
        ),
    )
    seq = connection.last_insert_rowid()
    wordforms.learn(connection, new.user_id, new.content)
    similar.learn(connection, new.user_id, seq, new.content)
    history.append(connection, action, seq=seq)
    return Added(seq, memory_id, duplicate=False, similar=near_matches)


def of_text(connection: apsw.Connection, user_id: str, content: str, limit: int) -> list[Record]:
    """Return the user's first memories with this text, whatever its case and punctuation, the copies last."""
    where = "m.user_id = ? AND m.hash = ? ORDER BY m.copy LIMIT ?"
    return list(_records(connection, where, (user_id, text_hash(content), limit)))


def find(connection: apsw.Connection, user_id: str, memory_id: str) -> Record:
    """Return one memory of the user. Raises MemoryNotFound, for another user's id too."""
    # No id holds half characters, which cannot even be looked up.
    possible = memory_id.isprintable()
    rows = list(_records(connection, "m.id = ? AND m.user_id = ?", (memory_id, user_id))) if possible else []
    if not rows:
        raise history.not_found(memory_id)
    return rows[0]


def fetch(connection: apsw.Connection, seqs: Iterable[int], excerpt: int | None = None) -> dict[int, Record]:
    """Return the memories with these rows, by seq; of the content the first `excerpt` characters, or all of it."""
    wanted = list(seqs)
    marks = ",".join("?" * len(wanted))
    columns = _COLUMNS if excerpt is None else _COLUMNS.replace("m.content", f"substr(m.content, 1, {excerpt:d})")
    return {record.seq: record for record in _records(connection, f"m.seq IN ({marks})", wanted, columns)}


def update(
    connection: apsw.Connection,
    user_id: str,
    memory_id: str,
    *,
    content: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    priority: str | None = None,
) -> Record:
    """Change what is given and nothing else, and return the memory as it is then. Writes.

    Metadata is merged at the top level, a null removes its key. Vectors of a changed text go in the same
    transaction.
    """
    old = find(connection, user_id, memory_id)
    merged = {**old.metadata, **(metadata or {})}
    merged = {key: value for key, value in merged.items() if not (metadata and key in metadata and value is None)}
    return change(connection, old, old.content if content is None else content, merged, priority or old.priority)


def change(
    connection: apsw.Connection,
    old: Record,
    text: str,
    merged: Mapping[str, Any],
    rank: str,
    action: history.Action = "updated",
) -> Record:
    """Make a memory's text, whole metadata and priority these, and return it as it is then. Writes.

    Vectors of a changed text go in the same transaction. A call that changes nothing leaves no trace.
    """
    # Metadata is compared as JSON: in Python 1, 1.0 and True are the same.
    if (text, history.to_json(merged), rank) == (old.content, history.to_json(old.metadata), old.priority):
        return old
    digest = text_hash(text)
    copy = connection.execute("SELECT copy FROM memories WHERE seq = ?", (old.seq,)).get
    if digest != old.hash:
        copy = _next_copy(connection, old.user_id, digest)
    connection.execute(
        """UPDATE memories SET content = ?, metadata = ?, priority = ?, hash = ?, copy = ?, updated_at = ?, spaced = ?
           WHERE seq = ?""",
        (
            text,
            history.to_json(merged),
            rank,
            digest,
            copy,
            max(now_text(), old.updated_at),
            space_out(text),
            old.seq,
        ),
    )
    if text != old.content:
        wordforms.learn(connection, old.user_id, text)
        similar.learn(connection, old.user_id, old.seq, text)
    history.append(connection, action, seq=old.seq)
    return find(connection, old.user_id, old.id)


def delete(connection: apsw.Connection, user_id: str, memory_id: str) -> Record:
    """Remove one memory of the user and return what it was. Its history stays. Writes."""
    record = find(connection, user_id, memory_id)
    history.append(connection, "deleted", seq=record.seq)
    connection.execute("DELETE FROM memories WHERE seq = ?", (record.seq,))
    return record


def delete_all(connection: apsw.Connection, user_id: str) -> int:
    """Remove all memories of one user and return how many. Their histories stay. Writes.

    Table by table instead of memory by memory, as the triggers would: the cost is that of the smaller part of the file.
    """
    history.append(connection, "deleted", user_id=user_id)
    own, total = count(connection, user_id), int(connection.execute("SELECT total(memories) FROM users").get)
    mine, others = "(SELECT seq FROM memories WHERE user_id = ?)", "(SELECT seq FROM memories WHERE user_id <> ?)"
    with _without_triggers(connection):
        for table in ("chunks", "jobs", "edges", "mentions", "extractions", "accesses"):
            connection.execute(f"DELETE FROM {table} WHERE memory IN {mine}", (user_id,))
        for table in ("entities", "attributes"):
            connection.execute(f"DELETE FROM {table} WHERE user_id = ?", (user_id,))
        columns = "content, author, day, spaced, owner"
        if 2 * own > total:
            connection.execute("INSERT INTO words (words) VALUES ('delete-all')")
            connection.execute(
                f"INSERT INTO words (rowid, {columns}) SELECT seq, {columns} FROM memories WHERE user_id <> ?",
                (user_id,),
            )
            kept: list[Any] = connection.execute(
                f"SELECT word, memory FROM telling_words WHERE memory IN {others}", (user_id,)
            ).fetchall()
            connection.execute("DELETE FROM telling_words")
            connection.executemany("INSERT INTO telling_words (word, memory) VALUES (?, ?)", kept)
        else:
            connection.execute(
                f"""INSERT INTO words (words, rowid, {columns})
                    SELECT 'delete', seq, {columns} FROM memories WHERE user_id = ?""",
                (user_id,),
            )
            connection.execute(f"DELETE FROM telling_words WHERE memory IN {mine}", (user_id,))
        connection.execute("DELETE FROM memories WHERE user_id = ?", (user_id,))
        removed = connection.changes()
    connection.execute(
        """UPDATE users SET memories = 0, generation = generation + 1, graph = graph + 1, edits = edits + 1
           WHERE user_id = ?""",
        (user_id,),
    )
    return removed


def page(
    connection: apsw.Connection, user_id: str, limit: int, offset: int, where: Clause = EVERYTHING
) -> tuple[int, list[Record]]:
    """Return how many of the user's memories pass the filter, and one page of them, newest first."""
    if where == EVERYTHING:
        total = count(connection, user_id)
    else:
        total = connection.execute(
            f"SELECT count(*) FROM memories AS m WHERE {'+' if where.indexed else ''}m.user_id = ?1 AND {where.sql}",
            (user_id, *where.params),
        ).get
    rows = _records(
        connection,
        f"m.user_id = ?1 AND {where.sql} ORDER BY m.created_at DESC, m.seq DESC LIMIT ? OFFSET ?",
        (user_id, *where.params, limit, offset),
    )
    return total, list(rows)


def count(connection: apsw.Connection, user_id: str) -> int:
    """Return how many memories the user has."""
    return connection.execute("SELECT memories FROM users WHERE user_id = ?", (user_id,)).get or 0


def generation(connection: apsw.Connection, user_id: str) -> int:
    """Return the number that changes with every write that can change an answer to this user."""
    return connection.execute("SELECT generation FROM users WHERE user_id = ?", (user_id,)).get or 0


def edits(connection: apsw.Connection, user_id: str) -> int:
    """Return the number that changes whenever a memory that the user had is changed or removed."""
    return connection.execute("SELECT edits FROM users WHERE user_id = ?", (user_id,)).get or 0


def count_others(connection: apsw.Connection, user_id: str) -> int:
    """Return how many other users have memories: only their number, to explain an empty answer."""
    return int(connection.execute("SELECT count(*) FROM users WHERE memories > 0 AND user_id <> ?", (user_id,)).get)


def totals(connection: apsw.Connection) -> dict[str, int]:
    """Return how many memories, users with memories, and history entries the file holds."""
    memories, users = connection.execute("SELECT total(memories), count(*) FROM users WHERE memories > 0").get
    entries = connection.execute("SELECT count(*) FROM history").get
    return {"memories": int(memories), "users": users, "history": entries}


def rows(connection: apsw.Connection) -> int:
    """Return how many memories the file holds, counted."""
    return int(connection.execute("SELECT count(*) FROM memories").get)


def keyword_rows(connection: apsw.Connection) -> int:
    """Return how many rows the keyword index holds, counted."""
    return int(connection.execute("SELECT count(*) FROM words_docsize").get)


def keyword_index_sound(connection: apsw.Connection) -> bool:
    """Compare the keyword index with what it indexes (FTS5's own check). Needs a write transaction; writes nothing."""
    try:
        connection.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")
        connection.execute("INSERT INTO parts (parts, rank) VALUES ('integrity-check', 1)")
    except apsw.CorruptError:
        return False
    return True


def odd_rows(connection: apsw.Connection) -> tuple[int, list[str]]:
    """Return how many memories have a date or a number that no tool of ours would write, and the first ids of them."""
    rows: list[Any] = connection.execute(
        """SELECT id, count(*) OVER () FROM memories
           WHERE created_at NOT GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:*Z'
              OR date(created_at) IS NOT substr(created_at, 1, 10)
              OR seq IN (SELECT memory FROM attributes WHERE value IN (9e999, -9e999))
           ORDER BY seq LIMIT 3"""
    ).fetchall()
    return (rows[0][1], [memory_id for memory_id, _ in rows]) if rows else (0, [])


def rebuild_keyword_index(connection: apsw.Connection) -> None:
    """Make anew from the memories what is kept beside them for searching and counting. Writes.

    That is the keyword index, the words of each user, telling words, metadata values and the users' counts; answers to
    every user may change by it.
    """
    connection.execute("INSERT INTO words (words) VALUES ('rebuild')")
    wordforms.rebuild(connection)
    connection.execute("DELETE FROM telling_words")
    similar.learn_missing(connection)
    connection.execute("DELETE FROM attributes")
    connection.execute(
        """INSERT OR IGNORE INTO attributes (user_id, key, value, memory)
           SELECT user_id, key, value, memory FROM attribute_values"""
    )
    connection.execute(
        """UPDATE users SET generation = generation + 1, edits = edits + 1,
               memories = (SELECT count(*) FROM memories AS m WHERE m.user_id = users.user_id)"""
    )


@contextlib.contextmanager
def _without_triggers(connection: apsw.Connection) -> Iterator[None]:
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    try:
        yield
    finally:
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 1)


def _records(
    connection: apsw.Connection, where: str, parameters: Iterable[Any], columns: str = _COLUMNS
) -> Iterable[Record]:
    row: tuple[Any, ...]
    for row in connection.execute(f"SELECT {columns} FROM memories AS m WHERE {where}", tuple(parameters)):
        yield Record._make(row)


def _next_copy(connection: apsw.Connection, user_id: str, digest: str, wanted: int | None = None) -> int:
    if (
        wanted is not None
        and not connection.execute(
            "SELECT 1 FROM memories WHERE user_id = ? AND hash = ? AND copy = ?", (user_id, digest, wanted)
        ).get
    ):
        return wanted
    return int(
        connection.execute(
            "SELECT coalesce(max(copy) + 1, 0) FROM memories WHERE user_id = ? AND hash = ?",
            (user_id, digest),
        ).get
    )

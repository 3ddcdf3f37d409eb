"""The knowledge graph in the file: every statement on entities, mentions and edges.

All of it is derived from the memories and belongs to the user whose memories say it. Functions take a connection
inside a transaction of `Database.read()` or `Database.write()`; the ones that change something say so. What a memory
said goes by triggers with the memory or its old text.
"""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import apsw

from r3_lite import jobs
from r3_lite.extract import METHODS, Extraction, Method, entity_key
from r3_lite.jobs import Job

TYPES = ("people", "organizations", "technologies", "projects", "places")
# Below it an entity of the head is too unsure to be a node (measured on the development sentences).
SURE = 0.5
# Longer names are no names.
MAX_NAME = 200
# Memories that are named at a node; their number is always told.
MEMORIES_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Node:
    """An entity: its first spelling, how many memories mention it, and the newest of them (ids)."""

    id: int
    type: str
    name: str
    mentions: int
    memories: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Edge:
    """`source TYPE target` (ids of entities): how many memories say so, how surely, and the first of them (id)."""

    source: int
    type: str
    target: int
    weight: int
    confidence: float
    memory_id: str


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """Part of a graph. Every edge has both ends among the nodes; the totals tell what was chosen from."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    total_nodes: int
    total_edges: int


def write(connection: apsw.Connection, job: Job, found: Extraction, method: Method, version: str) -> bool:
    """Make a memory's part of the graph what was found in it and strike its job; tell whether it was written.

    Runs in the caller's write transaction. A memory that vanished or changed meanwhile is left to its new job. The
    user's generation moves on. `method` is the best that the reader had, whatever was enough for this text.
    """
    if connection.execute("SELECT content FROM memories WHERE seq = ?", (job.memory,)).get != job.content:
        return False
    connection.execute("DELETE FROM edges WHERE memory = ?", (job.memory,))
    connection.execute("DELETE FROM mentions WHERE memory = ?", (job.memory,))
    ids: dict[tuple[str, str], int] = {}
    for entity in found.entities:
        if entity.type not in TYPES or entity.confidence < SURE or len(entity.name) > MAX_NAME:
            continue
        identity = (entity.type, entity_key(entity.name))
        if identity not in ids:
            ids[identity] = _entity(connection, job.user_id, *identity)
        connection.execute(
            """INSERT INTO mentions (entity, memory, position, name) SELECT ?1, ?2, ?3, ?4
               WHERE NOT EXISTS (SELECT 1 FROM mentions WHERE entity = ?1 AND memory = ?2 AND name = ?4)""",
            (ids[identity], job.memory, entity.start, entity.name),
        )
    for relation in found.relations:
        source, target = (ids.get((end.type, entity_key(end.name))) for end in (relation.source, relation.target))
        if source and target and source != target and relation.confidence >= SURE:
            connection.execute(
                """INSERT INTO edges (source, type, target, memory, confidence) VALUES (?, ?, ?, ?, ?)
                   ON CONFLICT DO UPDATE SET confidence = max(confidence, excluded.confidence)""",
                (source, relation.type, target, job.memory, min(relation.confidence, 1.0)),
            )
    connection.execute(
        """INSERT INTO extractions (memory, method, version) VALUES (?1, ?2, ?3)
           ON CONFLICT DO UPDATE SET method = ?2, version = ?3""",
        (job.memory, method, version),
    )
    jobs.strike(connection, None, "extract", job.memory)
    connection.execute(
        "UPDATE users SET generation = generation + 1, graph = graph + 1 WHERE user_id = ?", (job.user_id,)
    )
    return True


def outdated(connection: apsw.Connection, method: Method, version: str) -> int:
    """Return how many memories a better method, or a newer version of the same, should read. Reads only."""
    where, parameters = _outdated(method, version)
    return int(connection.execute(f"SELECT count(*) FROM extractions WHERE {where}", parameters).get)


def owe_outdated(connection: apsw.Connection, method: Method, version: str) -> None:
    """Enter work for the outdated memories and for those that are neither read nor owed. Writes.

    What they said stays until they have been read anew.
    """
    where, parameters = _outdated(method, version)
    connection.execute(
        f"""INSERT INTO jobs (space, kind, memory, created_at)
            SELECT 0, 'extract', seq, updated_at FROM memories
            WHERE seq IN (SELECT memory FROM extractions WHERE {where})
               OR NOT EXISTS (SELECT 1 FROM extractions WHERE memory = seq)
            ON CONFLICT DO NOTHING""",
        parameters,
    )


def unread(connection: apsw.Connection) -> int:
    """Return how many memories are neither read nor owed: 0 in a sound file. Reads only."""
    return int(
        connection.execute(
            """SELECT count(*) FROM memories WHERE NOT EXISTS (SELECT 1 FROM extractions WHERE memory = seq)
               AND NOT EXISTS (SELECT 1 FROM jobs WHERE space = 0 AND kind = 'extract' AND memory = seq)"""
        ).get
    )


def totals(connection: apsw.Connection) -> dict[str, int]:
    """Return how many entities and relations the file holds, over all users. Reads only."""
    entities = connection.execute("SELECT count(*) FROM entities").get
    edges = connection.execute("SELECT count(*) FROM (SELECT DISTINCT source, type, target FROM edges)").get
    return {"entities": entities, "relations": edges}


def find(connection: apsw.Connection, user_id: str, name: str) -> list[int]:
    """Return the user's entities of this name, in whatever spelling: several where it is a name of several types.

    A name may be given as a node's id, "type:name".
    """
    prefix, _, rest = name.partition(":")
    only = prefix if prefix in TYPES and rest else None
    rows = connection.execute(
        "SELECT id FROM entities WHERE user_id = ? AND key = ? AND type = coalesce(?, type) ORDER BY id",
        (user_id, entity_key(rest if only else name), only),
    )
    return [row[0] for row in rows]


def alike(connection: apsw.Connection, user_id: str, name: str, limit: int = 5) -> list[str]:
    """Return names of the user's entities that contain a word of this one, the most mentioned first."""
    words = [word for word in entity_key(name).split() if len(word) > 1]
    rows = connection.execute(
        f"""SELECT e.id FROM entities AS e, json_each(?) AS word
            WHERE e.user_id = ? AND instr(e.key, word.value) > 0
            GROUP BY e.id ORDER BY count(*) DESC, {_MENTIONS} DESC, e.id LIMIT ?""",
        (json.dumps(words), user_id, limit),
    )
    return [node.name for node in nodes(connection, [row[0] for row in rows])]


def neighbourhood(
    connection: apsw.Connection,
    user_id: str,
    *,
    limit: int,
    entity_type: str | None = None,
    name: str | None = None,
    relation: str | None = None,
) -> Neighbourhood:
    """Return the user's most mentioned entities and what connects them, at most `limit` nodes.

    `entity_type` and `name` (a substring, in any spelling) choose entities, `relation` chooses edges and entities at
    their ends. With `name` the neighbours of the chosen entities follow them, whatever their type.
    """
    key = entity_key(name) if name is not None else ""
    rows = connection.execute(
        f"""SELECT e.id FROM entities AS e
            WHERE e.user_id = ?1 AND (?2 IS NULL OR e.type = ?2) AND instr(e.key, ?3) > 0
              AND (?4 IS NULL OR EXISTS (SELECT 1 FROM edges WHERE source = e.id AND type = ?4)
                              OR EXISTS (SELECT 1 FROM edges WHERE target = e.id AND type = ?4))
            ORDER BY e.key = ?3 DESC, {_MENTIONS} DESC, e.id""",
        (user_id, entity_type, key, relation),
    )
    chosen = [row[0] for row in rows]
    if name is not None:
        chosen += _neighbours(connection, chosen, relation)
    shown = chosen[:limit]
    return Neighbourhood(
        nodes=tuple(nodes(connection, shown)),
        edges=tuple(_edges_between(connection, shown, relation)),
        total_nodes=len(chosen),
        total_edges=_count_edges(connection, chosen, relation),
    )


def nodes(connection: apsw.Connection, ids: Iterable[int]) -> list[Node]:
    """Return entities with their names and mentions, in the order of `ids`."""
    rows = connection.execute(
        f"""SELECT e.id, e.type, (SELECT name FROM mentions WHERE entity = e.id ORDER BY memory, position LIMIT 1),
                   {_MENTIONS},
                   (SELECT json_group_array(id) FROM (
                        SELECT DISTINCT m.id, m.seq FROM mentions AS o JOIN memories AS m ON m.seq = o.memory
                        WHERE o.entity = e.id ORDER BY m.seq DESC LIMIT {MEMORIES_SHOWN}))
            FROM json_each(?) AS wanted JOIN entities AS e ON e.id = wanted.value ORDER BY wanted.key""",
        (json.dumps(list(ids)),),
    )
    return [Node(number, kind, name, count, tuple(json.loads(ids))) for number, kind, name, count, ids in rows]


def behind(connection: apsw.Connection, ids: Collection[int], limit: int = 20) -> dict[tuple[int, str, int], list[str]]:
    """Return the memories (ids) behind each edge between the entities, the newest first, at most `limit` an edge."""
    found: dict[tuple[int, str, int], list[str]] = {}
    rows = connection.execute(
        """WITH ids (id) AS MATERIALIZED (SELECT value FROM json_each(?))
           SELECT source, type, target, m.id FROM edges JOIN memories AS m ON m.seq = memory
           WHERE source IN ids AND +target IN ids ORDER BY source, type, target, memory DESC""",
        (json.dumps(list(ids)),),
    )
    for source, kind, target, memory in rows:
        named = found.setdefault((source, kind, target), [])
        if len(named) < limit:
            named.append(memory)
    return found


def excerpts(connection: apsw.Connection, ids: Collection[str], length: int = 500) -> dict[str, tuple[str, str]]:
    """Return when each of the memories (ids) was made, and the first `length` characters of it."""
    rows = connection.execute(
        """SELECT id, created_at, substr(content, 1, ?2) FROM memories
           WHERE id IN (SELECT value FROM json_each(?1))""",
        (json.dumps(list(ids)), length),
    )
    return {memory: (created_at, text) for memory, created_at, text in rows}


def generation(connection: apsw.Connection, user_id: str) -> int:
    """Return the number that changes with every write that can change the user's graph."""
    return connection.execute("SELECT graph FROM users WHERE user_id = ?", (user_id,)).get or 0


def links(connection: apsw.Connection, user_id: str) -> list[tuple[int, str, int]]:
    """Return each edge of the user's graph once, as (source, type, target)."""
    rows: list[Any] = connection.execute(
        """SELECT DISTINCT source, type, target FROM edges
           WHERE source IN (SELECT id FROM entities WHERE user_id = ?)""",
        (user_id,),
    ).fetchall()
    return rows


def named_in(connection: apsw.Connection, user_id: str, keys: Collection[str]) -> dict[int, tuple[str, int]]:
    """Return the user's entities with one of these keys, as id: (key, number of mentions, counted up to 512)."""
    rows = connection.execute(
        """SELECT e.id, e.key, (SELECT count(*) FROM (SELECT 1 FROM mentions WHERE entity = e.id LIMIT 512))
           FROM json_each(?) AS wanted CROSS JOIN entities AS e ON e.user_id = ? AND e.key = wanted.value""",
        (json.dumps(list(keys)), user_id),
    )
    return {entity: (key, mentions) for entity, key, mentions in rows}


def mentioned_by(
    connection: apsw.Connection, entities: Collection[int], memories: Collection[int]
) -> dict[int, dict[int, str]]:
    """Return which of the entities each of the memories (seq) mentions, and in which spelling: {seq: {id: name}}."""
    found: dict[int, dict[int, str]] = {}
    rows = connection.execute(
        """SELECT memory, entity, name FROM mentions
           WHERE entity IN (SELECT value FROM json_each(?)) AND memory IN (SELECT value FROM json_each(?))
           ORDER BY memory, position DESC""",
        (json.dumps(list(entities)), json.dumps(list(memories))),
    )
    for memory, entity, name in rows:
        found.setdefault(memory, {})[entity] = name
    return found


_MENTIONS = "(SELECT count(DISTINCT memory) FROM mentions WHERE entity = e.id)"


def _entity(connection: apsw.Connection, user_id: str, kind: str, key: str) -> int:
    known = connection.execute(
        "SELECT id FROM entities WHERE user_id = ? AND key = ? AND type = ?", (user_id, key, kind)
    ).get
    if known is not None:
        return int(known)
    connection.execute("INSERT INTO entities (user_id, type, key) VALUES (?, ?, ?)", (user_id, kind, key))
    return connection.last_insert_rowid()


def _outdated(method: Method, version: str) -> tuple[str, tuple[str, ...]]:
    worse = METHODS[: METHODS.index(method)]
    marks = ",".join("?" * len(worse))
    return f"method IN ({marks}) OR (method = ? AND version <> ?)", (*worse, method, version)


def _neighbours(connection: apsw.Connection, chosen: Collection[int], relation: str | None) -> list[int]:
    """Return the entities next to the chosen ones, those with most connections to them first."""
    rows = connection.execute(
        """WITH chosen (id) AS MATERIALIZED (SELECT value FROM json_each(?1)),
                ends (id) AS (
                    SELECT target FROM edges WHERE source IN chosen AND (?2 IS NULL OR type = ?2)
                    UNION ALL
                    SELECT source FROM edges WHERE target IN chosen AND (?2 IS NULL OR type = ?2))
           SELECT id FROM ends WHERE id NOT IN chosen GROUP BY id ORDER BY count(*) DESC, id""",
        (json.dumps(list(chosen)), relation),
    )
    return [row[0] for row in rows]


def _edges_between(connection: apsw.Connection, ids: Collection[int], relation: str | None) -> list[Edge]:
    # The plus keeps SQLite from looking up every pair of ids in the index by target.
    rows = connection.execute(
        """WITH ids (id) AS MATERIALIZED (SELECT value FROM json_each(?1)),
                merged AS (SELECT source, type, target, count(*) AS weight, max(confidence) AS confidence,
                                  min(memory) AS first
                           FROM edges WHERE source IN ids AND +target IN ids AND (?2 IS NULL OR type = ?2)
                           GROUP BY source, type, target)
           SELECT source, type, target, weight, confidence, (SELECT id FROM memories WHERE seq = first)
           FROM merged ORDER BY weight DESC, confidence DESC, first, source, type, target""",
        (json.dumps(list(ids)), relation),
    )
    return [Edge(*row) for row in rows]


def _count_edges(connection: apsw.Connection, ids: Collection[int], relation: str | None) -> int:
    return int(
        connection.execute(
            """WITH ids (id) AS MATERIALIZED (SELECT value FROM json_each(?1))
               SELECT count(*) FROM (SELECT DISTINCT source, type, target FROM edges
                                     WHERE source IN ids AND +target IN ids AND (?2 IS NULL OR type = ?2))""",
            (json.dumps(list(ids)), relation),
        ).get
    )

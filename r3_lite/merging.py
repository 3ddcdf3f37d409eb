"""Duplicates in the file: finding what says the same, and merging it into the oldest memory that says it.

A plan is made from snapshots, page by page, and holds no lock. To carry it out, what the oldest takes over is computed
without a lock too; the short transaction that merges checks every memory again: what changed since is left alone.
"""

import hashlib
import json
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import apsw
from cachetools import TTLCache

from r3_lite import history
from r3_lite.clock import now_text
from r3_lite.db import Database
from r3_lite.dedupe import MAX_COMPARED, Wording, author_key, group, share, wording
from r3_lite.errors import InvalidParameters
from r3_lite.limits import MAX_METADATA, PRIORITIES, check_metadata
from r3_lite.text import word_set

# Memories that are read together.
_PAGE = 2_000
# Memories, and characters of texts and metadata, that are removed in one transaction: others wait a tenth of a second.
_BATCH = 200
_BATCH_LENGTH = 100_000
# Seconds in which other processes, which poll for the lock, get it between two batches.
_PAUSE = 0.01
# Characters of a text that a plan keeps to show.
EXCERPT = 300
# How long a preview is what the next live run carries out, and how many are kept.
PREVIEW_SECONDS = 3_600.0
_PREVIEWS = 8


@dataclass(frozen=True, slots=True)
class Member:
    """A memory as the plan found it: its row, id, the beginning of its text, and a digest of all that can change.

    `length` is how many characters of text and metadata it has.
    """

    seq: int
    id: str
    text: str
    state: bytes
    length: int


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A memory to be merged, and the word Jaccard of its text and that of the memory it is merged into."""

    member: Member
    similarity: float


@dataclass(frozen=True, slots=True)
class Group:
    """The oldest memory with a statement, and the others of the user that say the same."""

    primary: Member
    duplicates: tuple[Duplicate, ...]


@dataclass(frozen=True, slots=True)
class LookAlike:
    """Two memories whose words are alike, and that say different things as far as the rule can tell."""

    first: Member
    second: Member
    similarity: float


@dataclass(frozen=True, slots=True)
class Plan:
    """What a user's duplicates are: groups, oldest first; look-alikes, most alike first.

    `alike` is how many memories have a look-alike (each is named with one); `complete` is False where looking for
    them took too long.
    """

    groups: tuple[Group, ...]
    look_alikes: tuple[LookAlike, ...]
    alike: int
    complete: bool

    @property
    def duplicates(self) -> int:
        """How many memories would be removed."""
        return sum(len(one.duplicates) for one in self.groups)


@dataclass(frozen=True, slots=True)
class Merged:
    """What became of a plan: the groups, or parts of them, that were merged, and how many duplicates were left alone.

    `kept_apart` counts metadata values of removed memories for which the primary had another value, or no room;
    `look_alikes` are those of the plan that still are as they were.
    """

    groups: tuple[Group, ...]
    left_alone: int
    kept_apart: int
    look_alikes: tuple[LookAlike, ...]

    @property
    def deleted(self) -> int:
        """How many memories were removed."""
        return sum(len(one.duplicates) for one in self.groups)

    @property
    def alike(self) -> int:
        """How many memories have a look-alike."""
        return len({member.seq for one in self.look_alikes for member in (one.first, one.second)})


@dataclass(frozen=True, slots=True)
class _Change:
    """What a primary is to become, and how many metadata values only the history will keep."""

    metadata: str
    priority: str
    changes: bool
    kept_apart: int


class Previews:
    """The last plan shown to each user, for an hour. Thread-safe and bounded."""

    def __init__(self) -> None:
        self._plans: TTLCache[tuple[str, float], Plan] = TTLCache(_PREVIEWS, PREVIEW_SECONDS)
        self._lock = threading.Lock()

    def keep(self, user_id: str, threshold: float, plan: Plan) -> None:
        """Keep a plan that was shown."""
        with self._lock:
            self._plans[user_id, threshold] = plan

    def take(self, user_id: str, threshold: float) -> Plan | None:
        """Return the plan that was shown last, once."""
        with self._lock:
            return self._plans.pop((user_id, threshold), None)


def plan(database: Database, user_id: str, threshold: float) -> Plan:
    """Return the user's duplicates and look-alikes, all memories compared. Reads only, in short transactions.

    Duplicates are what the rule calls the same, however many words it left aside, and no two authors said; look-alikes
    are the others with a word Jaccard of at least `threshold` (0.5 to 1). About 0.2 ms a memory.
    """
    from r3_lite.near import alike

    members: list[Member] = []
    wordings: list[Wording] = []
    words: list[frozenset[int]] = []
    authors: list[str | None] = []
    numbers: dict[str, int] = {}
    for member, text, author in _oldest_first(database, user_id):
        members.append(member)
        authors.append(author_key(author))
        wordings.append(wording(text))
        known = word_set(text) if len(text) <= MAX_COMPARED else ()
        words.append(frozenset(numbers.setdefault(word, len(numbers)) for word in known))
    found = group(wordings, authors)
    groups = tuple(
        Group(members[first], tuple(Duplicate(members[n], share(words[first], words[n])) for n in others))
        for first, *others in found
    )
    removed = {n for _, *others in found for n in others}
    rest = [n for n in range(len(members)) if n not in removed]
    near = alike([words[n] for n in rest], threshold)
    pairs = sorted(near.pairs, key=lambda pair: (-pair[2], pair[:2]))
    look_alikes = tuple(LookAlike(members[rest[a]], members[rest[b]], similarity) for a, b, similarity in pairs)
    return Plan(groups, look_alikes, near.texts, near.complete)


def carry_out(database: Database, user_id: str, planned: Plan) -> Merged:
    """Merge what was planned, in transactions of about a tenth of a second (at most 200 removals). Writes.

    Before a group is merged all its memories are compared with what the plan saw: if one of them changed or is gone,
    the group is left as it is. A larger group is merged in parts, each of them whole. A single memory of a million
    characters takes the time that removing it takes.
    """
    merged: dict[int, list[Group]] = {}
    left_alone = kept_apart = 0
    # What the primaries became by our own hand.
    ours: dict[int, Member] = {}
    for batch in _batches(planned.groups):
        parts = [replace(part, primary=ours.get(part.primary.seq, part.primary)) for part in batch]
        with database.read() as connection:
            changes = [_change(connection, user_id, part) for part in parts]
        with database.write() as connection:
            for known, part, change in zip(batch, parts, changes, strict=True):
                if change is None or not _unchanged(connection, user_id, _members(part)):
                    left_alone += len(part.duplicates)
                    continue
                _merge(connection, part, change)
                kept_apart += change.kept_apart
                seq = part.primary.seq
                merged.setdefault(seq, []).append(known)
                ours[seq] = _present(connection, user_id, seq) or part.primary
        time.sleep(_PAUSE)
    still = _still_alike(database, user_id, planned.look_alikes, ours)
    groups = (
        replace(parts[0], duplicates=tuple(duplicate for part in parts for duplicate in part.duplicates))
        for parts in merged.values()
    )
    return Merged(tuple(groups), left_alone, kept_apart, still)


def _still_alike(
    database: Database, user_id: str, pairs: Sequence[LookAlike], ours: Mapping[int, Member]
) -> tuple[LookAlike, ...]:
    """Return the pairs of which both memories are as the plan, or we ourselves, left them. Reads only."""
    still: list[LookAlike] = []
    for start in range(0, len(pairs), _PAGE):
        with database.read() as connection:
            for pair in pairs[start : start + _PAGE]:
                both = (ours.get(member.seq, member) for member in (pair.first, pair.second))
                if _unchanged(connection, user_id, both):
                    still.append(pair)
    return tuple(still)


def _oldest_first(database: Database, user_id: str) -> Iterator[tuple[Member, str, str | None]]:
    """Yield the user's memories with their texts and authors."""
    after: tuple[str, int] = ("", 0)
    while True:
        with database.read() as connection:
            rows: list[Any] = connection.execute(
                f"""SELECT {_STATE}, author, created_at FROM memories
                    WHERE user_id = ? AND (created_at, seq) > (?, ?) ORDER BY created_at, seq LIMIT {_PAGE}""",
                (user_id, *after),
            ).fetchall()
        for *row, author, created_at in rows:
            yield _member(row), row[2], author
            after = (created_at, row[0])
        if len(rows) < _PAGE:
            return


_STATE = "seq, id, content, metadata, priority, updated_at"


def _member(row: Sequence[Any]) -> Member:
    seq, memory_id, content, *rest = row
    state = hashlib.blake2b("\0".join((content, *rest)).encode(), digest_size=16).digest()
    return Member(seq, memory_id, content[:EXCERPT], state, len(content) + len(rest[0]))


def _members(one: Group) -> Iterator[Member]:
    yield one.primary
    yield from (duplicate.member for duplicate in one.duplicates)


def _batches(groups: Iterable[Group]) -> Iterator[list[Group]]:
    """Yield groups, and parts of groups that are too large, for one transaction each: at most one part of a group."""
    batch: list[Group] = []
    count = length = 0
    for one in groups:
        part: list[Duplicate] = []
        length += one.primary.length
        for duplicate in one.duplicates:
            if count and (count == _BATCH or length + duplicate.member.length > _BATCH_LENGTH):
                yield [*batch, replace(one, duplicates=tuple(part))] if part else batch
                batch, part = [], []
                count, length = 0, one.primary.length
            part.append(duplicate)
            count += 1
            length += duplicate.member.length
        batch.append(replace(one, duplicates=tuple(part)))
    if batch:
        yield batch


def _present(connection: apsw.Connection, user_id: str, seq: int) -> Member | None:
    row = connection.execute(f"SELECT {_STATE} FROM memories WHERE seq = ? AND user_id = ?", (seq, user_id)).fetchone()
    return None if row is None else _member(row)


def _unchanged(connection: apsw.Connection, user_id: str, members: Iterable[Member]) -> bool:
    return all(_present(connection, user_id, member.seq) == member for member in members)


def _change(connection: apsw.Connection, user_id: str, one: Group) -> _Change | None:
    """Return what a group's primary is to become; None where a memory of the group changed. Reads only."""
    if not _unchanged(connection, user_id, _members(one)):
        return None
    rows: list[Any] = [
        connection.execute("SELECT metadata, priority FROM memories WHERE seq = ?", (member.seq,)).get
        for member in _members(one)
    ]
    (own, rank), others = rows[0], rows[1:]
    metadata, kept_apart = merged_metadata(history.from_json(own), (history.from_json(other) for other, _ in others))
    best = min((rank, *(other for _, other in others)), key=PRIORITIES.index)
    # Keys only ever come to those that the primary has.
    changes = len(metadata) > len(json.loads(own)) or best != rank
    return _Change(history.to_json(metadata), best, changes, kept_apart)


def _merge(connection: apsw.Connection, one: Group, change: _Change) -> None:
    """Remove the duplicates of an unchanged group, and let its primary be what was computed."""
    seq = one.primary.seq
    for duplicate in one.duplicates:
        _move_graph(connection, duplicate.member.seq, seq)
        history.append(connection, "merged", seq=duplicate.member.seq)
        connection.execute("DELETE FROM memories WHERE seq = ?", (duplicate.member.seq,))
    if change.changes:
        connection.execute(
            "UPDATE memories SET metadata = ?, priority = ?, updated_at = max(updated_at, ?) WHERE seq = ?",
            (change.metadata, change.priority, now_text(), seq),
        )
        history.append(connection, "updated", seq=seq)


def merged_metadata(own: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], int]:
    """Return metadata with the keys that others have besides, the first of them first, and how many values it lacks.

    The own value of a key stays. What it lacks are other values of the same key, and keys beyond the limits of
    `check_metadata`. Linear in the size of all.
    """
    merged = dict(own)
    # Compared as JSON: in Python 1, 1.0 and True are the same.
    values = {key: json.dumps(value, sort_keys=True) for key, value in own.items()}
    length = len(json.dumps(merged, ensure_ascii=False))
    lacking = 0
    for other in others:
        for key, value in other.items():
            text = json.dumps(value, sort_keys=True)
            if key in merged:
                lacking += values[key] != text
                continue
            # Braces of its own less, a comma more.
            more = len(json.dumps({key: value}, ensure_ascii=False)) - (0 if merged else 2)
            if length + more > MAX_METADATA or not _may_be_metadata(key, value):
                lacking += 1
                continue
            merged[key], values[key] = value, text
            length += more
    return merged, lacking


def _may_be_metadata(key: str, value: Any) -> bool:
    try:
        check_metadata({key: value})
    except InvalidParameters:
        return False
    return True


def _move_graph(connection: apsw.Connection, source: int, target: int) -> None:
    """Let a memory mention and say what another did, each once. What both say still counts for one memory."""
    connection.execute(
        """INSERT INTO mentions (entity, memory, position, name)
           SELECT entity, ?2, position, name FROM mentions AS m WHERE memory = ?1
             AND NOT EXISTS (SELECT 1 FROM mentions WHERE entity = m.entity AND memory = ?2)""",
        (source, target),
    )
    connection.execute(
        """INSERT INTO edges (source, type, target, memory, confidence)
           SELECT source, type, target, ?2, confidence FROM edges WHERE memory = ?1
           ON CONFLICT DO UPDATE SET confidence = max(confidence, excluded.confidence)""",
        (source, target),
    )

"""Duplicates in the file: finding what says the same, and merging it into the oldest memory that says it.

A plan is made from snapshots, page by page, and holds no lock. Carrying it out checks every memory again inside the
transaction that merges it: what changed since is left alone.
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
from r3_lite.dedupe import Wording, group, share, wording
from r3_lite.errors import InvalidParameters
from r3_lite.limits import check_metadata
from r3_lite.text import word_set

# Memories that are read together, and removed in one transaction: a tenth of a second for other writers to wait.
_PAGE = 2_000
_BATCH = 200
# Seconds in which other processes, which poll for the lock, get it between two batches.
_PAUSE = 0.01
# Longer texts are duplicates of the same statement only, and like no other.
_MAX_LENGTH = 20_000
# Characters of a text that a plan keeps to show.
EXCERPT = 300
# How long a preview is what the next live run carries out, and how many are kept.
PREVIEW_SECONDS = 3_600.0
_PREVIEWS = 8

_RANKS = ("critical", "high", "medium", "low")


@dataclass(frozen=True, slots=True)
class Member:
    """A memory as the plan found it: its row, id, the beginning of its text, and a digest of all that can change."""

    seq: int
    id: str
    text: str
    state: bytes


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

    `kept_apart` counts metadata values of removed memories for which the primary had another value, or no room.
    """

    groups: tuple[Group, ...]
    left_alone: int
    kept_apart: int

    @property
    def deleted(self) -> int:
        """How many memories were removed."""
        return sum(len(one.duplicates) for one in self.groups)


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

    Duplicates are what the rule calls the same, however many words it left aside; look-alikes are the others with a
    word Jaccard of at least `threshold` (0.5 to 1). About 0.2 ms a memory.
    """
    from r3_lite.near import alike

    members: list[Member] = []
    wordings: list[Wording] = []
    words: list[frozenset[int]] = []
    numbers: dict[str, int] = {}
    for member, text in _oldest_first(database, user_id):
        members.append(member)
        wordings.append(wording(text))
        known = word_set(text) if len(text) <= _MAX_LENGTH else ()
        words.append(frozenset(numbers.setdefault(word, len(numbers)) for word in known))
    found = group(wordings)
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
    """Merge what was planned, at most 200 removals a transaction. Writes.

    Before a group is merged all its memories are compared with what the plan saw: if one of them changed or is gone,
    the group is left as it is. A larger group is merged in parts, each of them whole.
    """
    merged: list[Group] = []
    left_alone = kept_apart = 0
    # What the primaries became by our own hand.
    ours: dict[int, Member] = {}
    for batch in _batches(planned.groups):
        with database.write() as connection:
            for part in batch:
                one = replace(part, primary=ours.get(part.primary.seq, part.primary))
                if not all(_unchanged(connection, user_id, member) for member in _members(one)):
                    left_alone += len(one.duplicates)
                    continue
                kept_apart += _merge(connection, one)
                merged.append(part)
                ours[one.primary.seq] = _present(connection, user_id, one.primary.seq) or one.primary
        time.sleep(_PAUSE)
    return Merged(tuple(merged), left_alone, kept_apart)


def _oldest_first(database: Database, user_id: str) -> Iterator[tuple[Member, str]]:
    after: tuple[str, int] = ("", 0)
    while True:
        with database.read() as connection:
            rows: list[Any] = connection.execute(
                f"""SELECT {_STATE}, created_at FROM memories
                    WHERE user_id = ? AND (created_at, seq) > (?, ?) ORDER BY created_at, seq LIMIT {_PAGE}""",
                (user_id, *after),
            ).fetchall()
        for *row, created_at in rows:
            yield _member(row), row[2]
            after = (created_at, row[0])
        if len(rows) < _PAGE:
            return


_STATE = "seq, id, content, metadata, priority, updated_at"


def _member(row: Sequence[Any]) -> Member:
    seq, memory_id, content, *rest = row
    state = hashlib.blake2b("\0".join((content, *rest)).encode(), digest_size=16).digest()
    return Member(seq, memory_id, content[:EXCERPT], state)


def _members(one: Group) -> Iterator[Member]:
    yield one.primary
    yield from (duplicate.member for duplicate in one.duplicates)


def _batches(groups: Iterable[Group]) -> Iterator[list[Group]]:
    """Yield groups, and parts of groups that are too large, for one transaction each."""
    batch: list[Group] = []
    size = 0
    for one in groups:
        for start in range(0, len(one.duplicates), _BATCH):
            part = replace(one, duplicates=one.duplicates[start : start + _BATCH])
            if size + len(part.duplicates) > _BATCH:
                yield batch
                batch, size = [], 0
            batch.append(part)
            size += len(part.duplicates)
    if batch:
        yield batch


def _present(connection: apsw.Connection, user_id: str, seq: int) -> Member | None:
    row = connection.execute(f"SELECT {_STATE} FROM memories WHERE seq = ? AND user_id = ?", (seq, user_id)).fetchone()
    return None if row is None else _member(row)


def _unchanged(connection: apsw.Connection, user_id: str, member: Member) -> bool:
    return _present(connection, user_id, member.seq) == member


def _merge(connection: apsw.Connection, one: Group) -> int:
    """Merge a group and return how many metadata values only the history keeps."""
    rows = [
        connection.execute("SELECT metadata, priority FROM memories WHERE seq = ?", (member.seq,)).get
        for member in _members(one)
    ]
    (own, rank), others = rows[0], rows[1:]
    metadata, kept_apart = merged_metadata(history.from_json(own), [history.from_json(other) for other, _ in others])
    text = json.dumps(metadata, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    best = min((rank, *(other for _, other in others)), key=_RANKS.index)
    seq = one.primary.seq
    for duplicate in one.duplicates:
        _move_graph(connection, duplicate.member.seq, seq)
        history.append(connection, "merged", seq=duplicate.member.seq)
        connection.execute("DELETE FROM memories WHERE seq = ?", (duplicate.member.seq,))
    if metadata != history.from_json(own) or best != rank:
        connection.execute(
            "UPDATE memories SET metadata = ?, priority = ?, updated_at = max(updated_at, ?) WHERE seq = ?",
            (text, best, now_text(), seq),
        )
        history.append(connection, "updated", seq=seq)
    return kept_apart


def merged_metadata(own: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> tuple[dict[str, Any], int]:
    """Return metadata with the keys that others have besides, the first of them first, and how many values it lacks.

    The own value of a key stays. What it lacks are other values of the same key, and keys beyond the limits of
    `check_metadata`.
    """
    merged = dict(own)
    lacking = 0
    for other in others:
        for key, value in other.items():
            if key in merged:
                # Compared as JSON: in Python 1, 1.0 and True are the same.
                lacking += json.dumps(merged[key], sort_keys=True) != json.dumps(value, sort_keys=True)
                continue
            try:
                merged = check_metadata({**merged, key: value})
            except InvalidParameters:
                lacking += 1
    return merged, lacking


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

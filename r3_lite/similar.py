"""Which of a user's memories are worded like a text: candidates by the telling words of each, compared exactly."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import apsw

from r3_lite import history
from r3_lite.dedupe import MAX_COMPARED, SIMILAR, required_overlap, share
from r3_lite.text import text_hash, word_set

if TYPE_CHECKING:
    from r3_lite.store import NewMemory

# Near matches that are compared word by word, and how many of the newest that share a telling word are among them.
_MAX_NEAR = 50
_MAX_SHARING = 64
# Telling words of a long text that are kept: complete up to 57 different words.
_MAX_TELLING = 24
_MAX_SIMILAR = 5
_WITHOUT = f"length(content) <= {MAX_COMPARED} AND seq NOT IN (SELECT memory FROM telling_words)"


@dataclass(frozen=True, slots=True)
class Similar:
    """A stored memory that shares many words with another text; `score` is their word Jaccard, 0 to 1."""

    id: str
    content: str
    score: float


def learn(connection: apsw.Connection, user_id: str, memory: int, content: str) -> None:
    """Enter the telling words of a memory's text, those of its former text being gone. Writes."""
    connection.executemany(
        "INSERT OR IGNORE INTO telling_words (word, memory) VALUES (?, ?)",
        [(word, memory) for word in _telling(user_id, content)],
    )


def learn_missing(connection: apsw.Connection) -> None:
    """Enter the telling words of memories that have none, as those that another program stored. Writes."""
    rows: Iterable[Any] = connection.execute(f"SELECT seq, user_id, content FROM memories WHERE {_WITHOUT}").fetchall()
    for seq, user_id, content in rows:
        learn(connection, user_id, seq, content)


def missing(connection: apsw.Connection) -> bool:
    """Tell whether a memory with words has no telling words. Reads only."""
    rows: Iterable[Any] = connection.execute(f"SELECT user_id, content FROM memories WHERE {_WITHOUT}")
    return any(_telling(user_id, content) for user_id, content in rows)


def find_similar(connection: apsw.Connection, user_id: str, content: str) -> tuple[Similar, ...]:
    """Return the user's memories with word Jaccard >= 0.6 to the text, best first, at most 5.

    Candidates share a telling word, by prefix filtering; of those that share one with very many the newest are
    compared. The comparison is exact. Texts of more than 20,000 characters are like no other.
    """
    sharing: Counter[int] = Counter()
    for word in _telling(user_id, content):
        rows: Iterable[Any] = connection.execute(
            "SELECT memory FROM telling_words WHERE word = ? ORDER BY memory DESC LIMIT ?", (word, _MAX_SHARING)
        )
        sharing.update(seq for (seq,) in rows)
    if not sharing:
        return ()
    candidates = [seq for seq, _ in sorted(sharing.items(), key=lambda item: (-item[1], -item[0]))[:_MAX_NEAR]]
    ours = word_set(content)
    found: Iterable[Any] = connection.execute(
        f"SELECT id, content FROM memories WHERE seq IN ({','.join('?' * len(candidates))}) AND +user_id = ?",
        (*candidates, user_id),
    )
    scored = [Similar(memory_id, text, share(ours, word_set(text))) for memory_id, text in found]
    near = sorted((s for s in scored if s.score >= SIMILAR), key=lambda s: (-s.score, s.id))
    return tuple(near[:_MAX_SIMILAR])


def same_text(connection: apsw.Connection, user_id: str, content: str, besides: str) -> str | None:
    """Return the id of the user's first memory with this text, whatever its case and punctuation, besides one."""
    found: str | None = connection.execute(
        "SELECT id FROM memories WHERE user_id = ? AND hash = ? AND id <> ? ORDER BY copy LIMIT 1",
        (user_id, text_hash(content), besides),
    ).get
    return found


def count_same(connection: apsw.Connection, new: "NewMemory") -> int:
    """Return how many memories of the user have exactly this text and metadata."""
    return int(
        connection.execute(
            "SELECT count(*) FROM memories WHERE user_id = ? AND hash = ? AND content = ? AND metadata = ?",
            (new.user_id, text_hash(new.content), new.content, history.to_json(new.metadata)),
        ).get
    )


def _telling(user_id: str, content: str) -> list[int]:
    """Return the words that a text shares at least one of with every text like it, as numbers of this user's own."""
    if len(content) > MAX_COMPARED:
        return []
    chosen = required_overlap(word_set(content), SIMILAR)[:_MAX_TELLING]
    return [_number(f"{user_id}\0{word}") for word in chosen]


def _number(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)

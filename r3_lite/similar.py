"""Which of a user's memories are worded like a text: candidates by the keyword index, compared exactly."""

from dataclasses import dataclass

import apsw

from r3_lite.dedupe import SIMILAR, required_overlap, share
from r3_lite.text import folded, match_any, space_out, word_set, words

# Near matches that are compared word by word, and of a long text the words that are looked up.
_MAX_NEAR = 50
_MAX_NEAR_WORDS = 16
_MAX_SIMILAR = 5
# Characters of a text up to which it is compared word by word; a long document is only ever the same or another.
_MAX_NEAR_LENGTH = 20_000


@dataclass(frozen=True, slots=True)
class Similar:
    """A stored memory that shares many words with another text; `score` is their word Jaccard, 0 to 1."""

    id: str
    content: str
    score: float


def find_similar(connection: apsw.Connection, user_id: str, content: str) -> tuple[Similar, ...]:
    """Return the user's memories with word Jaccard >= 0.6 to the text, best first, at most 5.

    Candidates come from the keyword index by prefix filtering (complete for texts of up to 16 chosen words and
    50 candidates), the comparison is exact. Texts of more than 20,000 characters are like no other.
    """
    if len(content) > _MAX_NEAR_LENGTH:
        return ()
    ours = word_set(content)
    chosen = required_overlap(ours, SIMILAR)[:_MAX_NEAR_WORDS]
    if not chosen:
        return ()
    # The index knows words as they were written: "straße", not "strasse".
    written = {word.lower() for word in words(f"{content} {space_out(content)}")}
    chosen += [word for word in written.difference(chosen) if folded(word) in chosen]
    rows = connection.execute(
        """SELECT m.id, m.content FROM words JOIN memories AS m ON m.seq = words.rowid
           WHERE words MATCH ? AND m.user_id = ? AND length(m.content) <= ? ORDER BY words.rank LIMIT ?""",
        (match_any(chosen, column="{content spaced}"), user_id, _MAX_NEAR_LENGTH, _MAX_NEAR),
    )
    scored = [Similar(memory_id, text, share(ours, word_set(text))) for memory_id, text in rows]
    near = sorted((s for s in scored if s.score >= SIMILAR), key=lambda s: (-s.score, s.id))
    return tuple(near[:_MAX_SIMILAR])

"""Keyword search: BM25 by SQLite's FTS5, within the scope of a search, and quick in large stores too. Reads only."""

import json
from collections.abc import Sequence
from itertools import islice
from typing import Any

import apsw

from r3_lite.scope import Scope
from r3_lite.text import match_any

# Scoring is the cost of a keyword search: about a microsecond for each memory that holds a term. Where the terms of
# a query are found so often in all, those memories are scored that are likely to be the best.
MOST_SCORED = 8_000
# Keyword matches that are looked up at once to see whether they are the user's and pass the filter.
_LARGEST_BLOCK = 2_000
# The word of the owner (migrations/0003) narrows the search and counts for nothing.
_SCORE = "-bm25(words, 1.0, 1.0, 1.0, 1.0, 0.0)"


def matches(connection: apsw.Connection, terms: Sequence[str], scope: Scope, limit: int) -> dict[int, float]:
    """Return the BM25 score (higher is better, above 0) of the scope's best matches for any of the terms, by seq.

    Best first, the newer of equals. Of very frequent terms a memory must hold two, or a rarer one, to be scored,
    unless fewer than `limit` do.
    """
    narrow = _narrowed(connection, terms, scope)
    found = _best(connection, narrow, scope, limit) if narrow else {}
    return found if len(found) >= limit else _best(connection, match_any(terms), scope, limit)


def is_rare(connection: apsw.Connection, term: str, scope: Scope, fewer_than: int) -> bool:
    """Tell whether fewer than so many of the user's memories hold a term; a frequent one costs next to nothing."""
    rows = iter(connection.execute("SELECT rowid FROM words WHERE words MATCH ?", (_within(match_any([term]), scope),)))
    everything = Scope(connection, scope.user_id)
    found, size = 0, fewer_than
    while found < fewer_than and (block := [seq for (seq,) in islice(rows, size)]):
        found += len(everything.passing(block))
        size = min(2 * size, _LARGEST_BLOCK)
    return found < fewer_than


def _best(connection: apsw.Connection, expression: str, scope: Scope, limit: int) -> dict[int, float]:
    expression = _within(expression, scope)
    if scope.few is not None:
        # Only what passes is scored.
        return dict(
            connection.execute(
                f"""SELECT rowid, {_SCORE} AS score FROM words
                    WHERE words MATCH ? AND +rowid IN (SELECT value FROM json_each(?))
                    ORDER BY score DESC, rowid DESC LIMIT ?""",
                (expression, json.dumps(list(scope.few)), limit),
            )
        )
    # Not "ORDER BY rank": then the index sorts all matches itself, with their positions.
    best = f"SELECT rowid, {_SCORE} AS score FROM words WHERE words MATCH ? ORDER BY score DESC, rowid DESC LIMIT ?"
    asked = limit
    while True:
        rows: list[Any] = connection.execute(best, (expression, asked)).fetchall()
        passing = scope.passing([seq for seq, _ in rows])
        found = {seq: score for seq, score in rows if seq in passing}
        if len(found) >= limit or len(rows) < asked:
            return dict(islice(found.items(), limit))
        asked *= 8


def _narrowed(connection: apsw.Connection, terms: Sequence[str], scope: Scope) -> str:
    """Return a query for the memories that are likely to match best, or "" where all matches are few enough.

    The rarest terms, up to half the number of memories that may be scored; or a term of each half of the others.
    """
    if scope.own <= MOST_SCORED:
        return ""
    count = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
    counts: dict[str, int] = {term: connection.execute(count, (match_any([term]), MOST_SCORED)).get for term in terms}
    if sum(counts.values()) <= MOST_SCORED:
        return ""
    rare: list[str] = []
    frequent: list[str] = []
    scored = 0
    for term in sorted(counts, key=lambda term: counts[term]):
        scored += counts[term]
        (rare if scored <= MOST_SCORED // 2 else frequent).append(term)
    parts = [match_any(rare)] if rare else []
    if len(frequent) > 1:
        parts.append(f"({match_any(frequent[::2])}) AND ({match_any(frequent[1::2])})")
    return " OR ".join(f"({part})" for part in parts)


def _within(expression: str, scope: Scope) -> str:
    """Return the query for a scope: a user with a small share of the file is looked up by the owners' column."""
    in_texts = f"{{content author day spaced}} : ({expression})"
    return f"owner : {_owner_word(scope.user_id)} AND {in_texts}" if scope.small else in_texts


def _owner_word(user_id: str) -> str:
    """Return the word that stands for a user in the keyword index, as migrations/0003 makes it."""
    return f"u{user_id.encode().hex()}z"

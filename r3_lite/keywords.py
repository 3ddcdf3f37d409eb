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
MOST_SCORED = 2_500
# Keyword matches that are looked up at once to see whether they are the user's and pass the filter.
_LARGEST_BLOCK = 2_000
# The word of the owner (migrations/0003) narrows the search and counts for nothing.
_SCORE = "-bm25(words, 1.0, 1.0, 1.0, 1.0, 0.0)"


def matches(connection: apsw.Connection, terms: Sequence[str], scope: Scope, limit: int) -> dict[int, float]:
    """Return the BM25 score (higher is better, above 0) of the scope's best matches for any of the terms, by seq.

    Best first, the newer of equals. Of very frequent terms a memory must hold several, or a rarer one, to be scored;
    where fewer than `limit` do, the newest of all matches are scored beside them.
    """
    narrow = _narrowed(connection, terms, scope)
    if not narrow:
        return _best(connection, match_any(terms), scope, limit)
    found = _best(connection, narrow, scope, limit)
    if len(found) < limit:
        found = _best(connection, match_any(terms), scope, limit, most=MOST_SCORED) | found
    return dict(sorted(found.items(), key=lambda item: (-item[1], -item[0]))[:limit])


def is_rare(connection: apsw.Connection, term: str, scope: Scope, fewer_than: int) -> bool:
    """Tell whether fewer than so many of the user's memories hold a term; a frequent one costs next to nothing."""
    rows = iter(connection.execute("SELECT rowid FROM words WHERE words MATCH ?", (_within(match_any([term]), scope),)))
    everything = Scope(connection, scope.user_id, alone=scope.alone)
    found, size = 0, fewer_than
    while found < fewer_than and (block := [seq for (seq,) in islice(rows, size)]):
        found += len(everything.passing(block))
        size = min(2 * size, _LARGEST_BLOCK)
    return found < fewer_than


def _best(connection: apsw.Connection, expression: str, scope: Scope, limit: int, most: int = -1) -> dict[int, float]:
    """Return the best matches in the scope; of more than `most` matches only the newest are looked at, -1 is all."""
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
    best = f"""SELECT rowid, score FROM (
                   SELECT rowid, {_SCORE} AS score FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ?)
               ORDER BY score DESC, rowid DESC LIMIT ?"""
    asked = limit
    while True:
        rows: list[Any] = connection.execute(best, (expression, most, asked)).fetchall()
        passing = scope.passing([seq for seq, _ in rows])
        found = {seq: score for seq, score in rows if seq in passing}
        if len(found) >= limit or len(rows) < asked:
            return dict(islice(found.items(), limit))
        asked *= 8


def _narrowed(connection: apsw.Connection, terms: Sequence[str], scope: Scope) -> str:
    """Return a query for the memories that are likely to match best, or "" where all matches are few enough.

    These hold one of the rarest terms, up to half the number of memories that may be scored, or several of the others:
    as many as it takes for no more memories than may be scored to hold them.
    """
    if scope.own <= MOST_SCORED:
        return ""
    counts = {term: _count(connection, match_any([term])) for term in terms}
    if sum(counts.values()) <= MOST_SCORED:
        return ""
    rare: list[str] = []
    frequent: list[str] = []
    scored = 0
    for term in sorted(counts, key=lambda term: counts[term]):
        scored += counts[term]
        (rare if scored <= MOST_SCORED // 2 else frequent).append(term)
    several = _several(frequent)
    together = next((query for query in several if _count(connection, query) < MOST_SCORED), "")
    if not rare and not together and several:
        together = several[-1]
    return " OR ".join(f"({part})" for part in (match_any(rare) if rare else "", together) if part)


def _several(terms: Sequence[str]) -> list[str]:
    """Return queries for memories with several of the terms, the rarest of them first, from loose to strict."""
    if len(terms) < 2:
        return []
    first, *others = ([term] for term in terms)
    halves = [list(terms[::2]), list(terms[1::2])]
    steps = [[*others[:n], [term for rest in others[n:] for term in rest]] for n in range(len(others))]
    every = [halves, *([first, *step] for step in steps)]
    return [" AND ".join(f"({match_any(part)})" for part in parts) for parts in every]


def _count(connection: apsw.Connection, expression: str) -> int:
    """Return how many memories of the file match, at most as many as may be scored."""
    count = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
    return int(connection.execute(count, (expression, MOST_SCORED)).get)


def _within(expression: str, scope: Scope) -> str:
    """Return the query for a scope: a user with a small share of the file is looked up by the owners' column."""
    in_texts = f"{{content author day spaced}} : ({expression})"
    return f"owner : {_owner_word(scope.user_id)} AND {in_texts}" if scope.small else in_texts


def _owner_word(user_id: str) -> str:
    """Return the word that stands for a user in the keyword index, as migrations/0003 makes it."""
    return f"u{user_id.encode().hex()}z"

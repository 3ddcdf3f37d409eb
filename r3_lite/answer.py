"""From a question to its answer: the query taken apart, its vector, candidates, ranking, and what to know of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from r3_lite import search, store, turns
from r3_lite.errors import ModelUnavailable
from r3_lite.query import parse_query
from r3_lite.retrieval import gather

if TYPE_CHECKING:
    from r3_lite.engine import Engine
    from r3_lite.filters import Clause


@dataclass(frozen=True, slots=True)
class Found:
    """A search answer: the ranking, how it was made, how many memories there are, what the caller should know.

    `note` says why keywords alone answered, `warning` what failed on the way, `others` how many other users have
    memories where this one has none.
    """

    ranking: search.Ranking
    mode: search.Mode
    total: int
    note: str = ""
    warning: str = ""
    others: int = 0


def answer(engine: Engine, user: str, query: str, where: Clause, *, limit: int, threshold: float) -> Found:
    """Return the user's memories that pass a filter and answer a query best, by meaning where that is possible now.

    Reads only, in two snapshots: the model runs between them, so that no lock is held while it computes. Raises
    StorageError where neither the keyword index nor the vectors can be read.
    """
    with engine.database.read() as connection:
        parsed = parse_query(query, turns.authors(connection, user))
    space = engine.indexer.space if engine.encoder.state == "ready" else None
    vector, known, warning = _query_vector(engine, parsed.dense_text) if space is not None else (None, 1.0, "")
    parsed = replace(parsed, known=known)
    with engine.database.read() as connection:
        gathered = gather(connection, parsed, user, where, max(search.POOL, limit), vector, space, engine.codes)
        ranking = search.rank(parsed, gathered.candidates, limit=limit, threshold=threshold)
        whole = store.fetch(connection, [hit.record.seq for hit in ranking.hits])
        total = store.count(connection, user)
        others = 0 if total else store.count_others(connection, user)
    if gathered.warning:
        engine.indexer.mend()
    hits = tuple(replace(hit, record=whole[hit.record.seq]) for hit in ranking.hits)
    by_meaning = vector is not None and (gathered.candidates.cosines or not gathered.candidates.bm25)
    return Found(
        replace(ranking, hits=hits),
        "hybrid" if by_meaning else "keyword",
        total,
        "" if by_meaning else _why_keywords(engine, known),
        " ".join(filter(None, (warning, gathered.warning))),
        others,
    )


def _query_vector(engine: Engine, text: str) -> tuple[bytes | None, float, str]:
    """Return a query's vector, how much of it the model knows, and a warning; no vector where that is nothing."""
    try:
        known = engine.encoder.known(text)
        return engine.encoder.embed_query(text).astype("<f4").tobytes() if known else None, known, ""
    except ModelUnavailable as error:
        return None, 1.0, error.message


def _why_keywords(engine: Engine, known: float) -> str:
    if not known:
        return "Search goes by keyword: the embedding model does not know the words or symbols of this query."
    if engine.encoder.state == "off":
        return "Search goes by keyword: embeddings are switched off."
    if engine.encoder.state == "unavailable" or engine.database.vector_error:
        return "Search goes by keyword: health_check says why."
    if engine.encoder.state == "ready":
        return "Search goes by keyword until the memories are embedded."
    return "Search goes by keyword until the embedding model is loaded."

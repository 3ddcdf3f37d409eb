"""From a query to candidates: what the keyword index, the vectors and the sessions of a user offer. Reads only."""

from dataclasses import dataclass

import apsw

from r3_lite import search, store, vectors
from r3_lite.errors import StorageError
from r3_lite.filters import Clause
from r3_lite.query import Query
from r3_lite.search import Candidates


@dataclass(frozen=True, slots=True)
class Gathered:
    """The candidates of a search, and what could not be read on the way to them ("" when all was well)."""

    candidates: Candidates
    warning: str = ""


def gather(
    connection: apsw.Connection,
    query: Query,
    user_id: str,
    where: Clause,
    size: int,
    vector: bytes | None = None,
    space: int | None = None,
) -> Gathered:
    """Return the memories of the user that may answer: `size` by keyword, by meaning and by each person named.

    `vector` is the query's unit vector in `space`; without it keywords alone are asked. The turns that follow a
    near one are candidates too. Runs on the caller's snapshot. If one of the two indexes cannot be read the other
    answers with a warning; raises StorageError if neither can.
    """
    broken_words = broken_vectors = ""
    bm25: dict[int, float] = {}
    cosines: dict[int, float] = {}
    if query.terms:
        try:
            bm25 = store.keyword_matches(connection, store.match_any(query.terms), user_id, size, where)
        except (apsw.SQLError, apsw.CorruptError):
            broken_words = "The keyword index cannot be read: this answer comes from meaning alone."
    if vector is not None and space is not None:
        try:
            near = vectors.nearest(connection, space, vector, user_id, where, 2 * size)
            written_by = {name: store.written_by(connection, name, [s for s, _ in near]) for name in query.authors}
            cosines = search.pool(near, written_by, size)
        except (apsw.SQLError, apsw.CorruptError):
            broken_vectors = "The vectors cannot be read: this answer comes from keywords alone."
            vector = None
    if broken_words and vector is None:
        raise StorageError("Neither the keyword index nor the vectors can be read. Run health_check; restore a backup.")
    around = store.neighbours(connection, {*bm25, *cosines})
    if where == store.EVERYTHING:
        # The turn after one that is near may be the answer, however it is worded.
        following = {after for seq, (_, after) in around.items() if after is not None and seq in cosines}
        around |= store.neighbours(connection, following - around.keys())
    records = store.fetch(connection, {*bm25, *cosines, *around}, excerpt=search.EXCERPT)
    context: dict[int, float] = {}
    if vector is not None and space is not None:
        cosines |= vectors.cosines(connection, space, vector, records.keys() - cosines.keys())
        previous = {seq: before for seq, (before, _) in around.items() if before is not None}
        context = vectors.cosines_in_context(connection, space, vector, previous)
    return Gathered(Candidates(records, cosines, bm25, context, around), broken_words or broken_vectors)

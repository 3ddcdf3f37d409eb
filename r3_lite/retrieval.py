"""From a query to candidates: what the keyword index, the vectors and the sessions of a user offer. Reads only."""

from collections.abc import Collection
from dataclasses import dataclass
from math import log

import apsw

from r3_lite import accesses, graph, keywords, search, store, talks, turns, vectors, wordforms
from r3_lite.codes import HeldCodes
from r3_lite.coverage import EXCERPT
from r3_lite.errors import StorageError
from r3_lite.extract import entity_key, names_in
from r3_lite.filters import EVERYTHING, Clause
from r3_lite.query import Query
from r3_lite.scope import Scope, scope_of
from r3_lite.search import Candidates
from r3_lite.store import Record
from r3_lite.text import has_forms

# A query's word that so many memories hold says enough as it stands; of a rarer one its other forms are looked up.
FREQUENT = 5
# What a memory earns by another form of a word, as a share of what the word itself would earn it at least.
OTHER_FORM = 0.5
# Where people are named so many times the size of a pool are looked at, for the memories that those wrote.
_SEARCHED_FOR_AUTHORS = 8
_ALONE = (None, None)


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
    codes: HeldCodes | None = None,
) -> Gathered:
    """Return the memories of the user that may answer: `size` by keyword, by meaning and by each person named.

    `vector` is the query's unit vector in `space`, whose codes `codes` holds; without it keywords alone are asked. The
    turns that follow a near one are candidates too. Runs on the caller's snapshot. If one of the two indexes cannot be
    read the other answers with a warning; raises StorageError if neither can.
    """
    broken_words = broken_vectors = ""
    scope = scope_of(connection, user_id, where)
    bm25: dict[int, float] = {}
    cosines: dict[int, float] = {}
    if query.terms:
        try:
            bm25 = _by_keyword(connection, query, scope, size)
        except (apsw.SQLError, apsw.CorruptError):
            broken_words = "The keyword index cannot be read: this answer comes from meaning alone."
    if vector is not None and space is not None:
        try:
            places = (_SEARCHED_FOR_AUTHORS if query.authors else 2) * size
            near = vectors.nearest(connection, codes or HeldCodes(), space, vector, scope, places)
            seqs = [seq for seq, _ in near]
            written_by = {name: turns.written_by(connection, name, seqs) for name in query.authors}
            cosines = search.pool(near, written_by, size)
        except (apsw.SQLError, apsw.CorruptError):
            broken_vectors = "The vectors cannot be read: this answer comes from keywords alone."
            vector = None
    if broken_words and vector is None:
        raise StorageError("Neither the keyword index nor the vectors can be read. Run health_check; restore a backup.")
    records = store.fetch(connection, {*bm25, *cosines}, excerpt=EXCERPT)
    around = _neighbours(connection, records.values())
    if where == EVERYTHING:
        # The turn after one that is near may be the answer, however it is worded.
        nearest = sorted(cosines, key=lambda seq: -cosines[seq])[: size // 2]
        following = {after: seq for seq in nearest if (after := around.get(seq, _ALONE)[1]) is not None}
        more = store.fetch(connection, following.keys() - records.keys(), excerpt=EXCERPT)
        records |= more
        around |= {seq: (following[seq], None) for seq in more}
    context: dict[int, float] = {}
    if vector is not None and space is not None:
        cosines |= vectors.cosines(connection, space, vector, records.keys() - cosines.keys())
        previous = {seq: before for seq, (before, _) in around.items() if before is not None}
        context = vectors.cosines_in_context(connection, space, vector, previous)
    entities = shared_entities(connection, user_id, query, records.keys())
    used = accesses.counts(connection, records)
    found = Candidates(records, cosines, bm25, context, around, entities, used)
    return Gathered(found, broken_words or broken_vectors)


def _neighbours(connection: apsw.Connection, records: Collection[Record]) -> dict[int, tuple[int | None, int | None]]:
    """Return the turns before and after each memory in its talk, by seq; see `talks` for what a talk is."""
    in_session = [record.seq for record in records if talks.in_session(record)]
    loose = [record.seq for record in records if record.author is not None and not talks.in_session(record)]
    found = turns.neighbours(connection, in_session) if in_session else {}
    return found | (turns.neighbours_in_time(connection, loose, talks.GAP) if loose else {})


def shared_entities(
    connection: apsw.Connection, user_id: str, query: Query, memories: Collection[int]
) -> dict[int, dict[str, float]]:
    """Return the names that each of the memories (seq) shares with a query, and how much each tells, 0 to 1.

    The graph knows the user's names: they are looked for among the words of the query, whatever their spelling. A name
    that few memories mention tells more; that of an author nothing, for people do not name themselves.
    """
    named = graph.named_in(connection, user_id, names_in(query.text))
    authors = {entity_key(author) for author in query.authors}
    count = store.count(connection, user_id)
    tells = {
        entity: 0.0 if key in authors else 1 - log(1 + mentions) / log(2 + count)
        for entity, (key, mentions) in named.items()
    }
    found = graph.mentioned_by(connection, named, memories) if named else {}
    return {seq: {name: tells[entity] for entity, name in names.items()} for seq, names in found.items()}


def _by_keyword(connection: apsw.Connection, query: Query, scope: Scope, size: int) -> dict[int, float]:
    """Return the keyword scores by seq: BM25 of the query's words, and a part of it for other forms of rare ones.

    A memory that holds a word in another form never earns more by it than one that holds the word itself.
    """
    bm25 = keywords.matches(connection, query.terms, scope, size)
    for term in query.terms:
        if not has_forms(term) or not keywords.is_rare(connection, term, scope, FREQUENT):
            continue
        forms = wordforms.other_forms(connection, scope.user_id, term)
        if not forms:
            continue
        exact = keywords.matches(connection, [term], scope, FREQUENT)
        others = keywords.matches(connection, forms, scope, size)
        best = max(others.values(), default=0.0)
        ceiling = min(best, *exact.values()) if exact else best
        for seq, score in others.items():
            if seq not in exact:
                bm25[seq] = bm25.get(seq, 0.0) + OTHER_FORM * score * ceiling / best
    return bm25

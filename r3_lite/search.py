"""From candidates to a ranking: fusion of meaning and keywords, context of the session, scores. Pure.

The weighted sum and its constants were measured on LoCoMo dialogues and on plain documents (docs/benchmarks.md).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from r3_lite.query import Query, date_match
from r3_lite.text import bare, has_forms, stem_of, words

if TYPE_CHECKING:
    from r3_lite.store import Record

Mode = Literal["hybrid", "keyword"]


@dataclass(frozen=True, slots=True)
class Weights:
    """What each signal adds to a memory's rank; every signal is 0 to 1. Tuned on LoCoMo's development half."""

    semantic: float = 0.5
    # Names that a query and a memory share; keywords find them too, so it decides between near ties.
    entity: float = 0.05
    # Share of the semantic signal that comes from the memory together with the one before it in its session.
    context: float = 0.7
    keyword: float = 0.35
    author: float = 0.22
    date: float = 0.3
    time_word: float = 0.15
    length: float = 0.1
    priority: float = 0.02
    # Recency at 0.1 costs three points of recall: it decides between near ties, unless the query asks for it.
    recency: float = 0.003
    latest: float = 0.3
    # What a memory gains from its session: from the neighbours before and after it, and from the best hit.
    previous: float = 0.05
    following: float = 0.2
    session: float = 0.8


WEIGHTS = Weights()
# Nearest neighbours, nearest of each person named, and keyword matches that are scored. 100 each is no better.
POOL = 50
# A memory that shares no word with the query and is this far from its meaning is no answer.
COSINE_FLOOR = 0.12
# Nor is one that shares no word with it and reaches less than this share of the best hit's own rank.
RELATIVE_FLOOR = 0.25
# Below this score a hit is shown as weak.
WEAK = 0.3
# Characters of a memory that are looked at when candidates are scored.
EXCERPT = 5_000
# How many of the best keyword matches say how much the keywords prove.
_KEYWORD_WITNESSES = 3
# Words from which on a memory is long enough to say something.
_FULL_LENGTH = 25
_PRIORITY = {"critical": 1.0, "high": 0.5, "medium": 0.0, "low": -0.5}
_TIME_WORD = re.compile(
    r"\b(yesterday|today|tonight|tomorrow|last|next|ago|week|weekend|month|monday|tuesday|wednesday|thursday|friday|"
    r"saturday|sunday|january|february|march|april|june|july|august|september|october|november|december|(19|20)\d\d|"
    r"recently|since)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Candidates:
    """What may answer a query, by seq. All but the records may miss memories.

    `cosines` (-1 to 1) are those of the memories themselves, `context` those of a memory together with the one
    before it in its session; `bm25` is above 0; `neighbours` are the memories before and after in the session.
    `entities` are the names that a memory shares with the query, each with how much it tells, 0 to 1.
    """

    records: Mapping[int, Record]
    cosines: Mapping[int, float] = field(default_factory=dict)
    bm25: Mapping[int, float] = field(default_factory=dict)
    context: Mapping[int, float] = field(default_factory=dict)
    neighbours: Mapping[int, tuple[int | None, int | None]] = field(default_factory=dict)
    entities: Mapping[int, Mapping[str, float]] = field(default_factory=dict)


@dataclass(slots=True)
class Breakdown:
    """Why a memory ranks where it does: the weighted parts, which add up to `total`, and the raw cosine.

    `own` is what the memory deserves by itself, before its session counts.
    """

    semantic: float = 0.0
    keyword: float = 0.0
    entity: float = 0.0
    author: float = 0.0
    date: float = 0.0
    time_word: float = 0.0
    length: float = 0.0
    priority: float = 0.0
    recency: float = 0.0
    neighbours: float = 0.0
    session: float = 0.0
    cosine: float | None = None
    own: float = 0.0

    @property
    def total(self) -> float:
        """The sum by which memories are ranked."""
        return self.own + self.neighbours + self.session

    def shown(self) -> dict[str, float]:
        """Return the parts that are not zero, rounded, as clients see them."""
        return {part: round(value, 4) for part, value in asdict(self).items() if value and part != "own"}


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory that answers, its score (0 to 1, higher is better), the parts of it, and the names it shares."""

    record: Record
    score: float
    breakdown: Breakdown
    entities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ranking:
    """Hits, best first; how many memories were compared and how many fell below the threshold or the floor."""

    hits: tuple[Hit, ...] = field(default=())
    candidates: int = 0
    below: int = 0


def pool(
    nearest: Sequence[tuple[int, float]], written_by: Mapping[str, Collection[int]], size: int
) -> dict[int, float]:
    """Choose from the nearest memories (seq, cosine; best first) the `size` best, and the `size` best of each author.

    `written_by` holds the memories among them of each author that the query names.
    """
    chosen = dict(nearest[:size])
    for own in written_by.values():
        chosen.update([(seq, cosine) for seq, cosine in nearest if seq in own][:size])
    return chosen


def rank(
    query: Query,
    candidates: Candidates,
    *,
    limit: int,
    threshold: float = 0.0,
    weights: Weights = WEIGHTS,
) -> Ranking:
    """Score the candidates and return the best `limit` of them.

    Cosines and BM25 are scaled by their best and added to what the query asks for besides (people, dates, time
    words); then each memory gains from its neighbours in the session and from the session's best. The sums are
    scaled so that the best hit's score says how well it answers: the greater of its cosine and the share of the
    query's terms it holds. Equal texts collapse into the best placed of them; ties go to the newer memory.
    Keyword matches are never cut by a floor, only by `threshold` (0 to 1).
    """
    records = candidates.records
    parts = _breakdowns(query, candidates, weights)
    best_own = max((part.own for part in parts.values()), default=0.0)
    kept = [
        record
        for seq, record in records.items()
        if seq in candidates.bm25
        or (candidates.cosines.get(seq, 0.0) >= COSINE_FLOOR and parts[seq].own >= RELATIVE_FLOOR * best_own)
    ]
    if not kept:
        return Ranking(candidates=len(records), below=len(records))
    total = {record.seq: parts[record.seq].total for record in kept}
    kept.sort(key=lambda r: (round(total[r.seq], 9), r.created_at, r.seq), reverse=True)
    first: dict[str, Record] = {}
    for record in kept:
        first.setdefault(record.hash, record)
    ordered = list(first.values())
    best = max(total[ordered[0].seq], 1e-9)
    quality = _answer_quality(query, ordered[0], candidates)
    scores = [max(0.0, quality * (total[record.seq] / best)) for record in ordered]
    good = sum(score >= threshold for score in scores)
    hits = [
        Hit(record, score, parts[record.seq], tuple(candidates.entities.get(record.seq, ())))
        for record, score in zip(ordered[: min(good, limit)], scores, strict=False)
    ]
    below = len(records) - len(kept) + len(scores) - good
    return Ranking(tuple(hits), candidates=len(records), below=below)


def _breakdowns(query: Query, candidates: Candidates, weights: Weights) -> dict[int, Breakdown]:
    records, cosines, bm25, context = candidates.records, candidates.cosines, candidates.bm25, candidates.context
    share = weights.context
    meaning = {
        s: (1 - share) * cosine + share * context.get(s, cosine) for s, cosine in cosines.items() if s in records
    }
    if meaning and bm25:
        # A memory that is not embedded yet is taken to be as near as its words are.
        scale = max(*meaning.values(), 0.0) / max(bm25.values())
        meaning |= {seq: scale * value for seq, value in bm25.items() if seq not in meaning}
    semantic = weights.semantic / max(meaning.values(), default=0.0) if any(v > 0 for v in meaning.values()) else 0.0
    keyword = weights.keyword * _keyword_evidence(query, records, bm25) / max(bm25.values()) if bm25 else 0.0
    shared = {seq: sum(names.values()) for seq, names in candidates.entities.items()}
    entity = weights.entity / max(shared.values()) if any(shared.values()) else 0.0
    newest_last = sorted(records.values(), key=lambda r: (r.created_at, r.seq))
    recency = (weights.latest if query.asks_latest else weights.recency) / max(len(newest_last), 1)
    parts: dict[int, Breakdown] = {}
    for place, record in enumerate(newest_last, 1):
        seq, text = record.seq, record.content[:EXCERPT]
        part = parts[seq] = Breakdown(
            semantic=semantic * max(meaning.get(seq, 0.0), 0.0),
            keyword=keyword * bm25.get(seq, 0.0),
            entity=entity * shared.get(seq, 0.0),
            author=weights.author if record.author in query.authors else 0.0,
            date=weights.date * date_match(query.dates, record.created_at) if query.dates else 0.0,
            time_word=weights.time_word if query.asks_when and _TIME_WORD.search(text) else 0.0,
            length=weights.length * min(1.0, text.count(" ", 0, 500) / _FULL_LENGTH),
            priority=weights.priority * _PRIORITY[record.priority],
            recency=recency * place,
            cosine=cosines.get(seq),
        )
        part.own = (
            part.semantic
            + part.keyword
            + part.entity
            + part.author
            + part.date
            + part.time_word
            + part.length
            + part.priority
            + part.recency
        )
    _add_sessions(parts, candidates, weights)
    return parts


def _keyword_evidence(query: Query, records: Mapping[int, Record], bm25: Mapping[int, float]) -> float:
    """Return how much the keywords prove, 0 to 1: the share of the query's terms that one of the best matches holds.

    A note that shares one word of five with a question is the best match by BM25 and still no answer.
    """
    best = sorted((seq for seq in bm25 if seq in records), key=lambda seq: -bm25[seq])[:_KEYWORD_WITNESSES]
    # The index knows stems of its own: what it found holds one term at the least.
    return max((coverage(query.terms, records[seq]) for seq in best), default=1.0) or 1 / len(query.terms)


def _add_sessions(parts: dict[int, Breakdown], candidates: Candidates, weights: Weights) -> None:
    """Add what each memory gains from its session: where one turn of a talk answers, the next ones often do."""
    best_of: dict[str, float] = {}
    for seq, record in candidates.records.items():
        if record.session is not None:
            best_of[record.session] = max(best_of.get(record.session, 0.0), parts[seq].own)
    for seq, part in parts.items():
        before, after = candidates.neighbours.get(seq, (None, None))
        if before in parts:
            part.neighbours += weights.previous * parts[before].own
        if after in parts:
            part.neighbours += weights.following * parts[after].own
        # A memory without a session is one of its own: it is its best.
        part.session = weights.session * best_of.get(candidates.records[seq].session or "", part.own)


def _answer_quality(query: Query, best: Record, candidates: Candidates) -> float:
    """Return how well the best hit answers, 0 to 1: the greater of its cosine and the share of query terms it holds.

    What the keyword index found holds a term at least, however that sees its words.
    """
    found = 1 / len(query.terms) if query.terms and best.seq in candidates.bm25 else 0.0
    return min(1.0, max(candidates.cosines.get(best.seq, 0.0), coverage(query.terms, best), found))


def coverage(terms: Collection[str], record: Record) -> float:
    """Return the share of query terms that a memory's text, author or day holds, by word stems; 0 without terms.

    A term that is only part of a word, or whose stem is, counts half.
    """
    text = bare(f"{record.content[:EXCERPT]} {record.author or ''} {record.created_at[:10]}").lower()
    stems = {_stem(word) for word in words(text)}
    return sum(_held(bare(term), text, stems) for term in terms) / len(terms) if terms else 0.0


def _held(term: str, text: str, stems: Collection[str]) -> float:
    if " " in term:
        return float(term.replace(" ", "") in text)
    if term in text if not term.isascii() else _stem(term) in stems:
        return 1.0
    return 0.5 if has_forms(term) and stem_of(term) in text else 0.0


@lru_cache(maxsize=8192)
def _stem(word: str) -> str:
    # Rougher than Porter, and only used to grade hits that the index found.
    for suffix in ("ings", "ing", "edly", "ed", "ies", "es", "ly", "s", "e", "y"):
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            return word[: -len(suffix)]
    return word

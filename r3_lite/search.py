"""From candidates to a ranking: fusion of meaning and keywords, context of the talk, scores. Pure.

The weighted sum and its constants were measured on LoCoMo dialogues and on plain documents (docs/benchmarks.md).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import log2
from typing import TYPE_CHECKING, Literal

from r3_lite.corrections import newest_of_like
from r3_lite.coverage import coverage, coverages, padded
from r3_lite.query import Query, date_match
from r3_lite.talks import talks
from r3_lite.text import query_terms, text_hash

if TYPE_CHECKING:
    from r3_lite.store import Record

Mode = Literal["hybrid", "keyword"]


@dataclass(frozen=True, slots=True)
class Weights:
    """What each signal adds to a memory's rank; every signal is 0 to 1.

    Found by random search on LoCoMo's five development conversations, each left out in turn, and rounded. The optimum
    is flat: half of any of them costs at most .006 of R@10, twice at most .021 (docs/benchmarks.md).
    """

    semantic: float = 0.5
    # The same for a note, which is no turn of a talk and has no neighbours to speak for it. More of it finds more notes
    # in English first (0.9: .61 instead of .56), and fewer in languages that the bundled model has not read.
    note_semantic: float = 0.6
    # Share of the semantic signal that comes from the memory together with the one before it in its talk.
    context: float = 0.6
    # The keyword index's score against the best one's, and how much of the query's words a match holds.
    keyword: float = 0.15
    coverage: float = 0.3
    # Names that a query and a memory share; keywords find them too, so it decides between near ties.
    entity: float = 0.05
    author: float = 0.22
    date: float = 0.3
    time_word: float = 0.15
    # What a memory loses that ends in a question: it seldom is the answer to one.
    asking: float = 0.1
    priority: float = 0.02
    access: float = 0.02
    # Recency at 0.1 costs three points of recall: it decides between near ties, unless the query asks for it.
    recency: float = 0.003
    latest: float = 0.3
    # What the newest of several memories about the same thing gains, which say it in nearly the same words.
    newest: float = 0.04
    # What a memory gains from its talk: from the question before it, from the turn after it, and from the best hit.
    answer: float = 0.3
    following: float = 0.1
    session: float = 0.7


WEIGHTS = Weights()
# Nearest neighbours, nearest of each person named, and keyword matches that are scored. 100 each is no better.
POOL = 50
# So many of the nearest notes are among so many first hits, whatever their words.
_NEAREST_NOTES, _PAGE = 5, 10
# A memory that shares no word with the query and is this far from its meaning is no answer.
COSINE_FLOOR = 0.12
# Nor is one that shares no word with it and reaches less than this share of the best hit's own rank.
RELATIVE_FLOOR = 0.25
# Below this score a hit is shown as weak.
WEAK = 0.3
# Accesses from which on a memory counts as one that is often needed.
_OFTEN = 64
_PRIORITY = {"critical": 1.0, "high": 0.5, "medium": 0.0, "low": -0.5}
_TIME_WORDS = frozenset(
    """yesterday today tonight tomorrow last next ago week weekend month monday tuesday wednesday thursday friday
    saturday sunday january february march april june july august september october november december recently
    since""".split()
)
_HIDDEN = ("own", "scale")
_YEAR = re.compile(r" (?:19|20)\d\d ")
_QUESTION_MARKS = ("?", "？", "؟")


@dataclass(frozen=True, slots=True)
class Candidates:
    """What may answer a query, by seq. All but the records may miss memories.

    `cosines` (-1 to 1) are those of the memories themselves, `context` those of a memory together with the one
    before it in its talk; `bm25` is above 0; `neighbours` are the memories before and after in the talk.
    `entities` are the names that a memory shares with the query, each with how much it tells, 0 to 1; `accesses` is
    how often a memory was asked for.
    """

    records: Mapping[int, Record]
    cosines: Mapping[int, float] = field(default_factory=dict)
    bm25: Mapping[int, float] = field(default_factory=dict)
    context: Mapping[int, float] = field(default_factory=dict)
    neighbours: Mapping[int, tuple[int | None, int | None]] = field(default_factory=dict)
    entities: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    accesses: Mapping[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Breakdown:
    """Why a memory ranks where it does: the weighted parts, which add up to `total`, and the raw cosine.

    `own` is what the memory deserves by itself, before its session counts; `scale` what makes a score of the total.
    """

    semantic: float = 0.0
    keyword: float = 0.0
    coverage: float = 0.0
    entity: float = 0.0
    author: float = 0.0
    date: float = 0.0
    time_word: float = 0.0
    asking: float = 0.0
    priority: float = 0.0
    access: float = 0.0
    recency: float = 0.0
    answer: float = 0.0
    following: float = 0.0
    session: float = 0.0
    near: float = 0.0
    cosine: float | None = None
    own: float = 0.0
    scale: float = 0.0

    @property
    def total(self) -> float:
        """The sum by which memories are ranked."""
        return self.own + self.answer + self.following + self.session + self.near

    def shown(self) -> dict[str, float]:
        """Return the parts that are not zero, rounded, as clients see them; all but the cosine add up to `rank`.

        A score is `rank` times `scale`, and 0 where that is less.
        """
        parts = {part: round(value, 4) for part, value in asdict(self).items() if value and part not in _HIDDEN}
        return {**parts, "rank": round(self.total, 4), "scale": round(self.scale, 4)}


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
    scaled so that the best hit's score says how well it answers (`_answer_quality`), after the nearest notes have got
    a place among the first. Equal texts collapse into the best placed of them; ties go to the newer memory.
    Keyword matches are never cut by a floor, only by `threshold` (0 to 1).
    """
    records = candidates.records
    talk = talks(records.values())
    signals = _signals(query, candidates, talk, weights)
    own = dict.fromkeys(records, 0.0)
    for values in signals.values():
        for seq, value in values.items():
            own[seq] += value
    # Corrections are for notes: in a talk the turns around tell what holds now.
    notes = {seq: record for seq, record in records.items() if seq not in talk}
    gains = newest_of_like(notes, own, query.terms, weights.newest) if weights.newest else {}
    for seq, gain in gains.items():
        own[seq] += gain
        signals["recency"][seq] += gain
    from_talk = _from_talk(own, candidates, talk, weights)
    best_own = max(own.values(), default=0.0)
    kept = [
        record
        for seq, record in records.items()
        if seq in candidates.bm25
        or (query.known * _nearness(seq, candidates) >= COSINE_FLOOR and own[seq] >= RELATIVE_FLOOR * best_own)
    ]
    if not kept:
        return Ranking(candidates=len(records), below=len(records))
    total = {record.seq: own[record.seq] + sum(from_talk[record.seq]) for record in kept}
    kept.sort(key=lambda r: (round(total[r.seq], 9), r.created_at, r.seq), reverse=True)
    first: dict[str, Record] = {}
    for record in kept:
        first.setdefault(record.hash, record)
    ordered = list(first.values())
    near = _lifts([r.seq for r in ordered if r.seq not in talk], [r.seq for r in ordered], total, candidates.cosines)
    for seq, lift in near.items():
        total[seq] += lift
    ordered.sort(key=lambda r: total[r.seq], reverse=True)
    best = max(total[ordered[0].seq], 1e-9)
    # A correction answers what the memories that it corrects answer.
    answering = ordered[:2] if ordered[0].seq in gains else ordered[:1]
    quality = max(_answer_quality(query, record, candidates) for record in answering)
    scale = quality / best
    scores = [share if (share := scale * total[record.seq]) > 0 else 0.0 for record in ordered]
    good = sum(score >= threshold for score in scores)
    hits = []
    for record, score in zip(ordered[: min(good, limit)], scores, strict=False):
        seq = record.seq
        answer, following, session = from_talk[seq]
        parts = Breakdown(
            **{name: values[seq] for name, values in signals.items() if seq in values},
            answer=answer,
            following=following,
            session=session,
            near=near.get(seq, 0.0),
            cosine=candidates.cosines.get(seq),
            own=own[seq],
            scale=scale,
        )
        hits.append(Hit(record, score, parts, tuple(candidates.entities.get(seq, ()))))
    below = len(records) - len(kept) + len(scores) - good
    return Ranking(tuple(hits), candidates=len(records), below=below)


def _nearness(seq: int, candidates: Candidates) -> float:
    # "Yes, last week" means something with the question before it only.
    alone, together = candidates.cosines.get(seq, 0.0), candidates.context.get(seq, 0.0)
    return together if together > alone else alone


def _lifts(
    notes: Sequence[int], ordered: Sequence[int], total: Mapping[int, float], cosines: Mapping[int, float]
) -> dict[int, float]:
    """Return what the nearest notes need to be among the first hits, by seq; nothing for those that are.

    In a large store there may be ten notes that share more words with a question than the one that answers it.
    """
    nearest = sorted((seq for seq in notes if seq in cosines), key=lambda seq: -cosines[seq])[:_NEAREST_NOTES]
    behind = [seq for seq in nearest if seq not in ordered[:_PAGE]]
    if not behind:
        return {}
    displaced = total[ordered[_PAGE - len(behind)]]
    return {seq: displaced * (1 + 1e-6 * number) - total[seq] for number, seq in enumerate(reversed(behind), 1)}


def _signals(
    query: Query, candidates: Candidates, talk: Mapping[int, str], weights: Weights
) -> dict[str, dict[int, float]]:
    """Return what each signal adds to the memories' own ranks: by its name in the breakdown, by seq."""
    records, cosines, bm25, context = candidates.records, candidates.cosines, candidates.bm25, candidates.context
    together = weights.context
    meaning = {
        seq: (1 - together) * cosine + together * context.get(seq, cosine)
        for seq, cosine in cosines.items()
        if seq in records
    }
    if meaning and bm25:
        # A memory that is not embedded yet is taken to be as near as its words are.
        scale = max(*meaning.values(), 0.0) / max(bm25.values())
        meaning |= {seq: scale * value for seq, value in bm25.items() if seq not in meaning}
    shared = {seq: sum(names.values()) for seq, names in candidates.entities.items()}
    held = coverages(_terms_besides_authors(query), [records[seq] for seq in bm25 if seq in records])
    # A note that shares one word of five with a question is the best match by BM25 and still no answer. The index
    # knows stems of its own: what it found holds one term at the least.
    evidence = max(held.values(), default=0.0) or 1 / max(len(query.terms), 1)
    signals = {
        "semantic": {
            seq: query.known * value * (weights.semantic if seq in talk else weights.note_semantic)
            for seq, value in _scaled(meaning, 1.0).items()
        },
        "keyword": _scaled(bm25, weights.keyword * evidence),
        "entity": _scaled(shared, weights.entity),
        "coverage": {seq: weights.coverage * share for seq, share in held.items()},
        "author": {seq: weights.author for seq, record in records.items() if record.author in query.authors},
        "asking": {seq: -weights.asking for seq, r in records.items() if r.content.rstrip().endswith(_QUESTION_MARKS)},
        "priority": {
            seq: weights.priority * _PRIORITY[record.priority]
            for seq, record in records.items()
            if record.priority != "medium"
        },
        "access": {
            seq: weights.access * min(1.0, log2(1 + count) / log2(1 + _OFTEN))
            for seq, count in candidates.accesses.items()
            if seq in records
        },
    }
    if query.dates:
        signals["date"] = {
            seq: weights.date * date_match(query.dates, record.created_at, record.content)
            for seq, record in records.items()
        }
    if query.asks_when:
        signals["time_word"] = {seq: weights.time_word for seq, record in records.items() if _says_when(record.content)}
    newest_last = sorted(records.values(), key=lambda r: (r.created_at, r.seq))
    recency = (weights.latest if query.asks_latest else weights.recency) / max(len(newest_last), 1)
    signals["recency"] = {record.seq: recency * place for place, record in enumerate(newest_last, 1)}
    return signals


def _scaled(values: Mapping[int, float], weight: float) -> dict[int, float]:
    """Return the values above 0 so that the best of them is the weight."""
    best = max(values.values(), default=0.0)
    return {seq: weight * value / best for seq, value in values.items() if value > 0} if best > 0 else {}


def _terms_besides_authors(query: Query) -> list[str]:
    # All that a person says holds the person's name.
    names = {term for author in query.authors for term in query_terms(author)}
    return [term for term in query.terms if term not in names]


def _from_talk(
    own: Mapping[int, float], candidates: Candidates, talk: Mapping[int, str], weights: Weights
) -> dict[int, tuple[float, float, float]]:
    """Return what each memory gains from its talk: as the answer to a question, from what follows, from its best."""
    best_of: dict[str, float] = {}
    for seq, name in talk.items():
        if own[seq] > best_of.get(name, 0.0):
            best_of[name] = own[seq]
    asks = {
        before
        for before, _ in candidates.neighbours.values()
        if before is not None
        and before in own
        and any(mark in candidates.records[before].content for mark in _QUESTION_MARKS)
    }
    gains = {}
    for seq, value in own.items():
        before, after = candidates.neighbours.get(seq, (None, None))
        # A memory without a talk is one of its own: it is its best.
        best = best_of.get(talk[seq], 0.0) if seq in talk else value
        gains[seq] = (
            weights.answer * own[before] if before is not None and before in asks else 0.0,
            weights.following * own[after] if after is not None and after in own else 0.0,
            weights.session * best,
        )
    return gains


def _answer_quality(query: Query, best: Record, candidates: Candidates) -> float:
    """Return how well the best hit answers, 0 to 1: the greater of its cosine and what its words prove.

    They prove the share of the query's terms that it holds, and less where these are few: half of it for one term,
    three quarters for two; the same text proves all. What the keyword index found holds a term at least, however that
    sees its words.
    """
    if text_hash(query.text) == best.hash:
        return 1.0
    found = 1 / len(query.terms) if query.terms and best.seq in candidates.bm25 else 0.0
    proved = max(coverage(query.terms, best), found) * (1 - 0.5 ** len(query.terms))
    return min(1.0, max(query.known * candidates.cosines.get(best.seq, 0.0), proved))


def _says_when(content: str) -> bool:
    text = padded(content)
    return not _TIME_WORDS.isdisjoint(text.split()) or _YEAR.search(text) is not None

"""From a query to a ranking: names and dates in it, fusion of meaning and keywords, scores. Pure.

The weighted sum and its constants were measured on LoCoMo dialogues and on plain documents (docs/benchmarks.md).
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, timedelta
from typing import Literal

from r3_lite.store import Record
from r3_lite.text import STOP_WORDS, query_terms, words

Mode = Literal["hybrid", "keyword"]


@dataclass(frozen=True, slots=True)
class Weights:
    """What each signal adds to a memory's rank; every signal is 0 to 1."""

    semantic: float = 0.5
    keyword: float = 0.4
    author: float = 0.2
    date: float = 0.2
    time_word: float = 0.1
    # Recency at 0.1 costs three points of recall: it only decides between near ties.
    recency: float = 0.01


WEIGHTS = Weights()
# Nearest neighbours and keyword matches that are scored: 50 each is 0.3 points of recall worse, 200 no better.
POOL = 100
# A memory that shares no word with the query and is this far from its meaning is no answer.
COSINE_FLOOR = 0.12
# Below this score a hit is shown as weak.
WEAK = 0.3

_ROLES = frozenset({"user", "assistant", "system"})
_ASKS_WHEN = re.compile(
    r"\s*(when|how long|since when|what (date|month|year|day|time)|which (day|month|year))\b", re.IGNORECASE
)
_TIME_WORD = re.compile(
    r"\b(yesterday|today|tonight|tomorrow|last|next|ago|week|weekend|month|monday|tuesday|wednesday|thursday|friday|"
    r"saturday|sunday|january|february|march|april|june|july|august|september|october|november|december|(19|20)\d\d|"
    r"recently|since)\b",
    re.IGNORECASE,
)
_MONTH_NAMES = "january february march april may june july august september october november december".split()
_MONTHS = {name: i for i, name in enumerate(_MONTH_NAMES, 1)} | {n[:3]: i for i, n in enumerate(_MONTH_NAMES, 1)}
_MONTHS["sept"] = 9
_MONTH = "(" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b\.?"
_ISO_DATE = re.compile(r"\b(\d{4})-(\d{1,2})(?:-(\d{1,2}))?\b")
_DAY_MONTH = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH},?(?:\s+(\d{{4}}))?", re.IGNORECASE)
_MONTH_DAY = re.compile(rf"\b{_MONTH}\s+(\d{{1,2}})(?:st|nd|rd|th)?\b(?!\d),?(?:\s+(\d{{4}}))?", re.IGNORECASE)
_MONTH_YEAR = re.compile(rf"\b{_MONTH},?\s+(\d{{4}})\b", re.IGNORECASE)
_LONE_MONTH = re.compile(r"\b(?:in|during|of|last|this|since)\s+" + _MONTH, re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PartialDate:
    """A date as far as a query names it."""

    year: int | None
    month: int
    day: int | None


@dataclass(frozen=True, slots=True)
class Query:
    """A query taken apart: keyword terms, authors named, dates written, text for the embedding model."""

    text: str
    terms: tuple[str, ...]
    authors: frozenset[str]
    dates: tuple[PartialDate, ...]
    asks_when: bool
    dense_text: str


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Why a memory ranks where it does: the weighted parts, which add up to `total`, and the raw cosine."""

    semantic: float = 0.0
    keyword: float = 0.0
    author: float = 0.0
    date: float = 0.0
    time_word: float = 0.0
    recency: float = 0.0
    cosine: float | None = None

    @property
    def total(self) -> float:
        """The sum by which memories are ranked."""
        return self.semantic + self.keyword + self.author + self.date + self.time_word + self.recency

    def shown(self) -> dict[str, float]:
        """Return the parts that are not zero, rounded, as clients see them."""
        return {part: round(value, 4) for part, value in asdict(self).items() if value}


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory that answers, its score (0 to 1, higher is better) and the parts of it."""

    record: Record
    score: float
    breakdown: Breakdown


@dataclass(frozen=True, slots=True)
class Ranking:
    """Hits, best first; how many memories were compared and how many fell below the threshold or the floor."""

    hits: tuple[Hit, ...] = field(default=())
    candidates: int = 0
    below: int = 0


def parse_query(text: str, known_authors: Iterable[str] = ()) -> Query:
    """Take a query apart. `known_authors` are the authors of the user's memories.

    People speak of themselves as "I": their names leave the text for the embedding model, not the keywords.
    """
    named = {author for author in known_authors if author.lower() not in _ROLES and _names(author, text)}
    dense = text
    for author in sorted(named, key=len, reverse=True):
        dense = re.sub(rf"(?<!\w){re.escape(author)}(?:['’]s)?(?!\w)", "I", dense, flags=re.IGNORECASE)
    return Query(
        text=text,
        terms=tuple(query_terms(text)),
        authors=frozenset(named),
        dates=tuple(dates_in(text)),
        asks_when=bool(_ASKS_WHEN.match(text)),
        dense_text=" ".join(dense.split()),
    )


def _names(author: str, text: str) -> bool:
    found = re.search(rf"(?<!\w){re.escape(author)}(?!\w)", text, re.IGNORECASE)
    # "will" and "may" are names only with a capital.
    return found is not None and not (found[0].islower() and found[0] in STOP_WORDS | {"may", "mark"})


def dates_in(text: str) -> list[PartialDate]:
    """Return the dates written in a text: 2023-05-07, 7 May 2023, May 7th, May 2023, in May."""
    found = [PartialDate(int(y), int(m), int(d) if d else None) for y, m, d in _ISO_DATE.findall(text)]
    found += [PartialDate(_int(y), _MONTHS[m.lower()], int(d)) for d, m, y in _DAY_MONTH.findall(text)]
    found += [PartialDate(_int(y), _MONTHS[m.lower()], int(d)) for m, d, y in _MONTH_DAY.findall(text)]
    if not found:
        found = [PartialDate(int(y), _MONTHS[m.lower()], None) for m, y in _MONTH_YEAR.findall(text)]
    if not found:
        found = [PartialDate(None, _MONTHS[m.lower()], None) for m in _LONE_MONTH.findall(text)]
    return [d for d in found if 1 <= d.month <= 12 and (d.day is None or 1 <= d.day <= 31)]


def date_match(wanted: Iterable[PartialDate], created_at: str) -> float:
    """Return how near a memory's day is to the dates asked for: same day 1, 3 days .6, 10 days .3, same month 1."""
    day = date.fromisoformat(created_at[:10])
    return max((_closeness(one, day) for one in wanted), default=0.0)


def rank(
    query: Query,
    records: Mapping[int, Record],
    cosines: Mapping[int, float],
    bm25: Mapping[int, float],
    *,
    limit: int,
    threshold: float = 0.0,
    weights: Weights = WEIGHTS,
) -> Ranking:
    """Score the candidates and return the best `limit` of them.

    `cosines` (-1 to 1) and `bm25` (above 0) are by seq and may each miss candidates. Both are scaled by their
    best; the sum is then scaled so that the best hit's score says how well it answers: the greater of its
    cosine and the share of the query's terms it holds. Equal texts collapse into the best placed of them; ties
    go to the newer memory. Keyword matches are never cut by the floor, only by `threshold` (0 to 1).
    """
    kept = {seq: r for seq, r in records.items() if seq in bm25 or cosines.get(seq, 0.0) >= COSINE_FLOOR}
    if not kept:
        return Ranking(candidates=len(records), below=len(records))
    parts = _breakdowns(query, kept, cosines, bm25, weights)
    ordered = sorted(kept.values(), key=lambda r: (round(parts[r.seq].total, 9), r.created_at, r.seq), reverse=True)
    ordered = list({record.hash: record for record in reversed(ordered)}.values())[::-1]
    scale = _answer_quality(query, ordered[:10], cosines) / parts[ordered[0].seq].total
    hits = [Hit(r, min(1.0, max(0.0, parts[r.seq].total * scale)), parts[r.seq]) for r in ordered]
    good = [hit for hit in hits if hit.score >= threshold]
    below = len(records) - len(kept) + len(hits) - len(good)
    return Ranking(tuple(good[:limit]), candidates=len(records), below=below)


def _breakdowns(
    query: Query,
    records: Mapping[int, Record],
    cosines: Mapping[int, float],
    bm25: Mapping[int, float],
    weights: Weights,
) -> dict[int, Breakdown]:
    best_cosine = max((cosines.get(seq, 0.0) for seq in records), default=0.0)
    best_bm25 = max((bm25.get(seq, 0.0) for seq in records), default=0.0)
    newest_first = sorted(records.values(), key=lambda r: (r.created_at, r.seq))
    newness = {record.seq: place / len(newest_first) for place, record in enumerate(newest_first, 1)}
    return {
        seq: Breakdown(
            semantic=weights.semantic * _share(cosines.get(seq, 0.0), best_cosine),
            keyword=weights.keyword * _share(bm25.get(seq, 0.0), best_bm25),
            author=weights.author if record.author in query.authors else 0.0,
            date=weights.date * date_match(query.dates, record.created_at),
            time_word=weights.time_word if query.asks_when and _TIME_WORD.search(record.content) else 0.0,
            recency=weights.recency * newness[seq],
            cosine=cosines.get(seq),
        )
        for seq, record in records.items()
    }


def _answer_quality(query: Query, best: Sequence[Record], cosines: Mapping[int, float]) -> float:
    """Return how well the best hits answer, 0 to 1: their greatest cosine or share of query terms held."""
    qualities = (max(cosines.get(r.seq, 0.0), coverage(query.terms, r)) for r in best)
    return min(1.0, max(qualities, default=0.0))


def coverage(terms: Collection[str], record: Record) -> float:
    """Return the share of query terms that a memory's text, author or day holds, by word stems; 0 without terms."""
    text = f"{record.content[:20_000]} {record.author or ''} {record.created_at[:10]}".lower()
    stems = {_stem(word) for word in words(text)}
    held = sum(term.replace(" ", "") in text if not term.isascii() else _stem(term) in stems for term in terms)
    return held / len(terms) if terms else 0.0


def _stem(word: str) -> str:
    # Rougher than Porter, and only used to grade hits that the index found.
    for suffix in ("ings", "ing", "edly", "ed", "ies", "es", "ly", "s", "e", "y"):
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            return word[: -len(suffix)]
    return word


def _share(value: float, best: float) -> float:
    return max(value, 0.0) / best if best > 0 else 0.0


def _closeness(wanted: PartialDate, day: date) -> float:
    if wanted.year and wanted.year != day.year and wanted.day is None:
        return 0.0
    if wanted.day is None:
        return 1.0 if wanted.month == day.month else 0.0
    try:
        apart = abs(date(wanted.year or day.year, wanted.month, wanted.day) - day)
    except ValueError:
        return 0.0
    if apart == timedelta(0):
        return 1.0
    return 0.6 if apart <= timedelta(days=3) else 0.3 if apart <= timedelta(days=10) else 0.0


def _int(digits: str) -> int | None:
    return int(digits) if digits else None

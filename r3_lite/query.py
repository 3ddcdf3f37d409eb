"""A query taken apart: keyword terms, people named, dates written or meant, what kind of answer it asks for. Pure."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

from r3_lite.text import STOP_WORDS, query_terms

_ROLES = frozenset({"user", "assistant", "system"})
_ASKS_WHEN = re.compile(
    r"\s*(when|how long|since when|what (date|month|year|day|time)|which (day|month|year))\b", re.IGNORECASE
)
_MONTH_NAMES = "january february march april may june july august september october november december".split()
_MONTHS = {name: i for i, name in enumerate(_MONTH_NAMES, 1)} | {n[:3]: i for i, n in enumerate(_MONTH_NAMES, 1)}
_MONTHS["sept"] = 9
_MONTH = "(" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\b\.?"
# For text in lower case: a pattern that ignores case takes "ſ" for "s" and "ı" for "i", and no month is called so.
_ISO_DATE = re.compile(r"\b(\d{4})-(\d{1,2})(?:-(\d{1,2}))?\b")
_DAY_MONTH = re.compile(rf"\b(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH},?(?:\s+(\d{{4}}))?")
_MONTH_DAY = re.compile(rf"\b{_MONTH}\s+(\d{{1,2}})(?:st|nd|rd|th)?\b(?!\d),?(?:\s+(\d{{4}}))?")
_MONTH_YEAR = re.compile(rf"\b{_MONTH},?\s+(\d{{4}})\b")
_NUMERIC_DATE = re.compile(r"(?<![\d./-])(\d{1,2})([./-])(\d{1,2})\2(\d{4}|\d{2})(?![\d/-])")
_LONE_MONTH = re.compile(r"\b(?:in|during|of|last|this|since)\s+" + _MONTH)
_ASKS_LATEST = re.compile(
    r"\b(latest|newest|most recent(ly)?|current(ly)?|now|nowadays|these days|at the moment|up to date|as of today)\b",
    re.IGNORECASE,
)
_RELATIVE_DAY = re.compile(r"\b(today|yesterday|last week|last month|this month)\b")
# One of these is in every text that the patterns beside it match; most texts hold none.
_RELATIVE = ("today", "yesterday", "last week", "last month", "this month", " ago")
_AGO = re.compile(r"\b(\d{1,3}|an?|one|two|three|four|five|six) (day|week|month)s? ago\b")
_COUNTS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}


@dataclass(frozen=True, slots=True)
class PartialDate:
    """A date as far as a query names it."""

    year: int | None
    month: int
    day: int | None


@dataclass(frozen=True, slots=True)
class Query:
    """A query taken apart: keyword terms, authors named, dates written, text for the embedding model.

    `known` is how much of that text the model knows, 0 to 1: meaning counts by as much.
    """

    text: str
    terms: tuple[str, ...]
    authors: frozenset[str]
    dates: tuple[PartialDate, ...]
    asks_when: bool
    asks_latest: bool
    dense_text: str
    known: float = 1.0


def parse_query(text: str, known_authors: Iterable[str] = (), today: date | None = None) -> Query:
    """Take a query apart. `known_authors` are the authors of the user's memories; `today` is in UTC by default.

    People speak of themselves as "I": their names leave the text for the embedding model, not the keywords.
    """
    lower = text.lower()
    # Most authors are ruled out by a plain search: a thousand patterns over a long query take seconds.
    possible = [author for author in known_authors if author.lower() in lower and author.lower() not in _ROLES]
    named = {author for author in possible if _names(author, text)}
    dense = text
    for author in sorted(named, key=len, reverse=True):
        dense = re.sub(rf"(?<!\w){re.escape(author)}(?:['’]s)?(?!\w)", "I", dense, flags=re.IGNORECASE)
    return Query(
        text=text,
        terms=tuple(query_terms(text)),
        authors=frozenset(named),
        dates=tuple(dates_in(text) or relative_dates_in(text, today or datetime.now(UTC).date())),
        asks_when=bool(_ASKS_WHEN.match(text)),
        asks_latest=bool(_ASKS_LATEST.search(text)),
        dense_text=" ".join(dense.split()),
    )


def _names(author: str, text: str) -> bool:
    found = re.search(rf"(?<!\w){re.escape(author)}(?!\w)", text, re.IGNORECASE)
    # "will" and "may" are names only with a capital.
    return found is not None and not (found[0].islower() and found[0] in STOP_WORDS | {"may", "mark"})


def dates_in(text: str) -> list[PartialDate]:
    """Return the dates written in a text: 2023-05-07, 7 May 2023, May 7th, 7.5.2023, 5/7/2023, May 2023, in May.

    5/7/2023 is read both ways, as day and month and as month and day.
    """
    text = text.lower()
    found = [PartialDate(int(y), int(m), int(d) if d else None) for y, m, d in _ISO_DATE.findall(text)]
    found += [PartialDate(_int(y), _MONTHS[m], int(d)) for d, m, y in _DAY_MONTH.findall(text)]
    found += [PartialDate(_int(y), _MONTHS[m], int(d)) for m, d, y in _MONTH_DAY.findall(text)]
    for first, sign, second, year in _NUMERIC_DATE.findall(text):
        century = int(year) + (2000 if len(year) == 2 else 0)
        found.append(PartialDate(century, int(second), int(first)))
        if sign == "/":
            found.append(PartialDate(century, int(first), int(second)))
    if not found:
        found = [PartialDate(int(y), _MONTHS[m], None) for m, y in _MONTH_YEAR.findall(text)]
    if not found:
        found = [PartialDate(None, _MONTHS[m], None) for m in _LONE_MONTH.findall(text)]
    return [d for d in found if 1 <= d.month <= 12 and (d.day is None or 1 <= d.day <= 31)]


def relative_dates_in(text: str, today: date) -> list[PartialDate]:
    """Return the days or months that words such as yesterday, last month or two weeks ago mean on `today`."""
    text = text.lower()
    if not any(hint in text for hint in _RELATIVE):
        return []
    found = []
    for word in _RELATIVE_DAY.findall(text):
        days = {"today": 0, "yesterday": 1, "last week": 7}.get(word)
        day = _days_before(today, days if days is not None else today.day if word == "last month" else 0)
        found.append(replace(day, day=None) if day and days is None else day)
    for count, unit in _AGO.findall(text):
        number = _COUNTS.get(count) or int(count)
        found.append(_days_before(today, number * {"day": 1, "week": 7, "month": 30}[unit]))
    return [one for one in found if one is not None]


def date_match(wanted: Collection[PartialDate], created_at: str, text: str = "") -> float:
    """Return how near a memory is to the dates asked for: same day 1, 3 days .6, 10 days .3, same month 1.

    Its dates are the day it was made and those that "yesterday" or "two weeks ago" in its text meant on that day. 0
    where `created_at` is no date.
    """
    try:
        day = date.fromisoformat(created_at[:10])
    except ValueError:
        # Another program wrote the row: health_check names it.
        return 0.0
    meant = [PartialDate(day.year, day.month, day.day), *relative_dates_in(text, day)]
    return max((_closeness(one, other) for one in wanted for other in meant), default=0.0)


def _days_before(day: date, days: int) -> PartialDate | None:
    try:
        before = day - timedelta(days=days)
    except OverflowError:
        return None
    return PartialDate(before.year, before.month, before.day)


def _closeness(wanted: PartialDate, meant: PartialDate) -> float:
    if wanted.day is None or meant.day is None:
        same_year = not wanted.year or wanted.year == meant.year
        return float(same_year and wanted.month == meant.month and wanted.day is None)
    try:
        day = date(meant.year or 1, meant.month, meant.day)
        apart = abs(date(wanted.year or day.year, wanted.month, wanted.day) - day)
    except ValueError:
        return 0.0
    if apart == timedelta(0):
        return 1.0
    return 0.6 if apart <= timedelta(days=3) else 0.3 if apart <= timedelta(days=10) else 0.0


def _int(digits: str) -> int | None:
    return int(digits) if digits else None

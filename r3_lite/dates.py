"""Finds the dates that a text names: days, months, years, quarters, weekdays and the near past and future."""

import re
from functools import lru_cache

_MONTHS = r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)\.?"
)
_DAY = r"\d{1,2}(?:st|nd|rd|th)?"
_YEAR = r"(?:19|20)\d{2}"
_WEEKDAY = r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
_NEAR = r"(?:[Nn]ext|[Ll]ast|[Tt]his)"
_IN_TIME = (
    r"(?:in|by|to|until|till|since|last|next|of|from|before|after|for|this|every|on|early|late|around|"
    r"during|mid)"
)

_OF_WORDS = (
    rf"{_MONTH} {_DAY}(?:,? {_YEAR})?(?: ?(?:to|-|–) ?(?:{_MONTH} )?{_DAY}(?:,? {_YEAR})?)?(?!\d)",
    rf"{_DAY}(?: ?(?:to|-|–) ?{_DAY})? (?:of )?{_MONTH}(?:,? {_YEAR})?",
    rf"{_MONTH} {_YEAR}",
    rf"(?:{_NEAR} |[Ee]very (?:second |other ))?{_WEEKDAY}s?",
    rf"{_NEAR} (?:week|weekend|month|year|quarter|spring|summer|autumn|fall|winter)",
    r"[Yy]esterday|[Tt]omorrow",
    _MONTHS,
)
# These stand in texts without any word of a date too.
_OF_NUMBERS = (
    r"\d{4}-\d{2}-\d{2}",
    r"\d{1,2}[./]\d{1,2}[./](?:\d{4}|\d{2})",
    rf"Q[1-4](?:[ /]?{_YEAR})?",
    rf"(?:(?<=\b[Ii]n )|(?<=\b[Ss]ince )|(?<=\b[Bb]y )|(?<=\b[Uu]ntil )|(?<=\b[Ff]rom )){_YEAR}",
)
# Month names that are also given names or common words: dates only after a word of time.
_OTHERWISE = frozenset(("march", "april", "may", "june", "august"))
_BEFORE = re.compile(rf"\b{_IN_TIME}\s$", re.IGNORECASE)

# Most texts have none of these and need no further look.
_HINT = re.compile(
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)|day\b|days\b|morrow|\b(?:next|last|this) ",
    re.IGNORECASE,
)


def find_dates(text: str) -> list[tuple[int, int]]:
    """Character spans of the dates in `text`, left to right, the longest reading of each place.

    Text without any capital is read without regard to case. Times of day, durations and "today" are no dates.
    """
    hint = _HINT.search(text)
    if not hint and not any(map(str.isdigit, text)):
        return []
    found = []
    for pattern in _compiled(not any(map(str.isupper, text)), hint is None):
        for match in pattern.finditer(text):
            if match.group().lower() in _OTHERWISE and not _BEFORE.search(
                text[max(0, match.start() - 12) : match.start()]
            ):
                continue
            found.append(match.span())
    found.sort(key=lambda span: (span[0] - span[1], span[0]))
    kept: list[tuple[int, int]] = []
    for start, end in found:
        if all(end <= a or start >= b for a, b in kept):
            kept.append((start, end))
    return sorted(kept)


@lru_cache(maxsize=4)
def _compiled(ignore_case: bool, of_numbers: bool) -> tuple[re.Pattern[str], ...]:
    flags = re.IGNORECASE if ignore_case else 0
    patterns = _OF_NUMBERS if of_numbers else (*_OF_WORDS, *_OF_NUMBERS)
    return tuple(re.compile(rf"(?:(?<![\w-])|(?<=\bmid-))(?:{pattern})(?![\w-])", flags) for pattern in patterns)

"""Which memory is the newest of those that say much the same, and answers what they answered. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from heapq import nlargest
from typing import TYPE_CHECKING

from r3_lite.text import STOP_WORDS, words

if TYPE_CHECKING:
    from r3_lite.store import Record

# The best memories by their own rank that a newer one may say anew.
_LOOKED_AT = 20
# Those among which one that says that something has changed is looked for.
_LOOKED_THROUGH = 60
# Characters up to which a text is one statement, which another can say anew.
_STATEMENT = 300
# The share of their words, but for numbers and those of change, that two statements about one thing have in common;
# and the share that is enough where the newer says that something has changed.
_ALIKE, _ALIKE_IN_CHANGE = 0.6, 0.5
_CHANGES = frozenset(
    """now nowadays moved changed switched became replaced renamed updated corrected correction new anymore
    instead""".split()
)
_IGNORED = STOP_WORDS | _CHANGES
_CHANGE_PHRASES = ("no longer", "any more", "from now on", "as of")
_MARKS = str.maketrans(dict.fromkeys(".,;:!?()", " "))


def newest_of_like(
    records: Mapping[int, Record], own: Mapping[int, float], terms: Collection[str], bonus: float
) -> dict[int, float]:
    """Return what the newest of several statements about the same thing gain on their own ranks, by seq.

    Two statements are about the same thing where most of their words are the same, one of the query's terms among
    them; numbers, stop words and words of change do not count. The newest gains `bonus`. If it says that something
    has changed ("SSH moved to 49222"), it gains what it lacks to the best of those that it corrects, if that is more.
    """
    asked = {word for term in terms for word in term.split()}
    statements = {seq: record for seq, record in records.items() if len(record.content) <= _STATEMENT}
    first = nlargest(_LOOKED_THROUGH, statements, key=lambda seq: own[seq])
    best = first[:_LOOKED_AT]
    told = {seq: _telling(statements[seq].content) for seq in best}
    changes = {seq for seq in first if _says_changed(statements[seq].content)}
    gains: dict[int, float] = {}
    for seq in {*best, *changes}:
        telling = told.get(seq) or _telling(statements[seq].content)
        if telling.isdisjoint(asked):
            continue
        least = _ALIKE_IN_CHANGE if seq in changes else _ALIKE
        like = [other for other in best if other != seq and _about_the_same(telling, told[other], asked, least)]
        moment = _moment(statements[seq])
        if like and moment > max(_moment(statements[other]) for other in like):
            lacks = max(own[other] for other in like) - own[seq]
            gains[seq] = max(bonus, lacks + bonus) if seq in changes else bonus
    return gains


def _telling(content: str) -> frozenset[str]:
    plain = content.lower()
    for phrase in _CHANGE_PHRASES:
        plain = plain.replace(phrase, " ")
    return frozenset(word for word in words(plain) if word not in _IGNORED and not word.isdigit())


def _says_changed(content: str) -> bool:
    text = content.lower().translate(_MARKS)
    return not _CHANGES.isdisjoint(text.split()) or any(phrase in text for phrase in _CHANGE_PHRASES)


def _about_the_same(one: frozenset[str], other: frozenset[str], asked: set[str], least: float) -> bool:
    common = one & other
    return len(common) >= least * len(one | other) and not common.isdisjoint(asked)


def _moment(record: Record) -> tuple[str, int]:
    return record.created_at, record.seq

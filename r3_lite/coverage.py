"""How much of a query's words a memory holds: exactly for one, quickly for many. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from math import log1p
from typing import TYPE_CHECKING

from r3_lite.text import bare, has_forms, stem_of, words

if TYPE_CHECKING:
    from r3_lite.store import Record

# Characters of a memory that are looked at.
EXCERPT = 5_000
# Letters up to which a word is looked for as it stands.
_SHORT = 3
# All that parts words in ASCII, for str.translate.
_GAPS = {code: " " for code in range(128) if not chr(code).isalnum()}


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


def coverages(terms: Sequence[str], records: Sequence[Record]) -> dict[int, float]:
    """Return the share of query terms that each of the texts holds, by seq; a term counts by how few of them hold it.

    The weight of a term is log(1 + n / (1 + holders)) among n texts, an inverse document frequency without another look
    at the index. Quicker and rougher than `coverage`: a word holds a term if it begins with its stem.
    """
    texts = [padded(record.content) for record in records]
    whole, total = 0.0, [0.0] * len(texts)
    for term in terms:
        one, other, part = _needles(bare(term))
        held = [1.0 if one in text or other in text else 0.5 if part in text else 0.0 for text in texts]
        weight = log1p(len(texts) / (1 + sum(map(bool, held))))
        whole += weight
        total = [so_far + weight * share for so_far, share in zip(total, held, strict=True)]
    return {record.seq: share / whole for record, share in zip(records, total, strict=True)} if whole else {}


def padded(content: str) -> str:
    """Return the words of a text in lower case with a space on either side, plainly spelled."""
    return f" {bare(content[:EXCERPT]).lower().translate(_GAPS)} "


def _needles(term: str) -> tuple[str, str, str]:
    """Return what a padded text has of a term that it holds, one or the other, and of another form of it."""
    if " " in term:
        joined = term.replace(" ", "")
        return joined, joined, joined
    part = stem_of(term) if has_forms(term) else ""
    if not term.isascii():
        return term, term, part or term
    if len(term) <= _SHORT:
        # "go" begins "good": of short words only the plural is another form.
        return f" {term} ", f" {term}s ", part or f" {term} "
    stem = f" {_stem(term)}"
    return stem, stem, part or stem


@lru_cache(maxsize=8192)
def _stem(word: str) -> str:
    # Rougher than Porter, and only used to grade hits that the index found.
    for suffix in ("ings", "ing", "edly", "ed", "ies", "es", "ly", "s", "e", "y"):
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            return word[: -len(suffix)]
    return word

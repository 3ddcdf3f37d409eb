"""When two texts say the same thing: word Jaccard, and a strict guard on what differs between them."""

import math
import re
from collections.abc import Iterable

from r3_lite.text import normalised, word_set

# r3's threshold: above it two texts are near matches.
NEAR_MATCH = 0.85
# From here on a stored text is worth showing to the caller who adds another like it.
SIMILAR = 0.6

# Words whose presence changes no fact. Every other word on one side only makes a different statement.
_FILLERS = frozenset("really very actually definitely totally please oh hey".split())
# Behind one of these a filler is what is denied: "not really" is not "not".
_NEGATIONS = frozenset({"not", "no", "never", "nor", "without"})
_OPENING = re.compile(
    r"^\s*(?:(?:note\s+that|fyi|btw|by\s+the\s+way|(?:please\s+)?remember(?:\s+that)?|just\s+so\s+you\s+know|"
    r"for\s+the\s+record)\b\s*(?:[:,]|-(?!\S))?|(?:note|reminder|quick\s+update|well)\s*(?:[:,]|-(?!\S)))\s*",
    re.IGNORECASE,
)
_CONTRACTIONS = (
    (re.compile(r"\bcan(?:not|'t)\b"), "can not"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"\bshan't\b"), "shall not"),
    (re.compile(r"n't\b"), " not"),
    (re.compile(r"'m\b"), " am"),
    (re.compile(r"'re\b"), " are"),
    (re.compile(r"'ve\b"), " have"),
    (re.compile(r"'ll\b"), " will"),
    (re.compile(r"\b(it|that|he|she|what|there|here|who|where)'s\b"), r"\1 is"),
    # No contraction, but one word all the same: "a few" are some, "few" are hardly any.
    (re.compile(r"\ba (few|little)\b"), r"a_\1"),
)
_TOKEN = re.compile(r"\s+|[^\W_]+|.")


def jaccard(a: str, b: str) -> float:
    """Return the share of distinct words two texts have in common, 0 to 1 (1 for two texts without words)."""
    return share(word_set(a), word_set(b))


def share(first: frozenset[str], second: frozenset[str]) -> float:
    """Return the share of the elements of two sets that are in both, 0 to 1 (1 for two empty sets)."""
    union = len(first | second)
    return len(first & second) / union if union else 1.0


def same_meaning(a: str, b: str) -> bool:
    """Tell whether what differs between two near matches cannot change the meaning.

    Contractions are written out, openings ("By the way, ") and fillers ("really") left aside; what remains must be
    the same text after normalisation. A number, date, name, negation, unit, sign, punctuation or word order that
    differs makes it another statement, and so does any further word on one side.
    """
    return _bare(a) == _bare(b)


def required_overlap(words: Iterable[str], threshold: float) -> list[str]:
    """Return words of which every text with Jaccard >= `threshold` to these shares at least one, longest first.

    Prefix filtering: such a text shares at least ceil(threshold * n) of the n words, so it cannot miss more than
    n - ceil(threshold * n) of any choice. Long words are chosen because they are rare.
    """
    ordered = sorted(words, key=lambda word: (-len(word), word))
    # 0.55 * 20 is a little more than 11 in floating point: without the allowance one word would be missing.
    return ordered[: len(ordered) - math.ceil(threshold * len(ordered) - 1e-9) + 1]


def _bare(text: str) -> list[str]:
    """Return the tokens of the normalised text without opening and fillers, contractions written out."""
    plain = normalised(_OPENING.sub("", text))
    for pattern, full in _CONTRACTIONS:
        plain = pattern.sub(full, plain)
    tokens = [token for token in _TOKEN.findall(plain) if not token.isspace()]
    return [
        token
        for previous, token in zip(["", *tokens], tokens, strict=False)
        if token not in _FILLERS or previous in _NEGATIONS
    ]

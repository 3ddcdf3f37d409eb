"""When two texts say the same thing: word Jaccard, and a strict guard on what differs between them."""

import math
import re
import unicodedata
from collections.abc import Iterable

from r3_lite.text import word_set

# r3's threshold: above it two texts are near matches.
NEAR_MATCH = 0.85
# From here on a stored text is worth showing to the caller who adds another like it.
SIMILAR = 0.6

# Words whose presence changes no fact. Every other word on one side only makes a different statement.
_FILLERS = frozenset(
    "a an the really so just very also super totally actually definitely pretty quite some please well oh hey".split()
)
_OPENING = re.compile(
    r"^\s*(?:note(?:\s+that)?|fyi|btw|by\s+the\s+way|(?:please\s+)?remember(?:\s+that)?|reminder|quick\s+update|"
    r"just\s+so\s+you\s+know|for\s+the\s+record)\b\s*[:,\-–—]?\s*",
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
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
# A number with its sign, separators and unit sign is one token; "?" makes a question of a statement.
_TOKEN = re.compile(r"[-+]?\d[\d.,:/-]*\w*%?|\w+(?:[+#]+)?|[?<>=+*/%$€£@&-]")


def jaccard(a: str, b: str) -> float:
    """Return the share of distinct words two texts have in common, 0 to 1 (1 for two texts without words)."""
    first, second = word_set(a), word_set(b)
    union = len(first | second)
    return len(first & second) / union if union else 1.0


def same_meaning(a: str, b: str) -> bool:
    """Tell whether what differs between two near matches cannot change the meaning.

    Contractions are written out, openings ("By the way, ") and fillers left aside; the words that remain must be
    the same in the same order, or the same sentences in another order. A number, date, name, negation, unit or
    word order that differs makes it another statement, and so does any further content word on one side.
    """
    first, second = _sentences(a), _sentences(b)
    return _flat(first) == _flat(second) or sorted(first) == sorted(second)


def required_overlap(words: Iterable[str], threshold: float) -> list[str]:
    """Return words of which every text with Jaccard >= `threshold` to these shares at least one, longest first.

    Prefix filtering: such a text shares at least ceil(threshold * n) of the n words, so it cannot miss more than
    n - ceil(threshold * n) of any choice. Long words are chosen because they are rare.
    """
    ordered = sorted(words, key=lambda word: (-len(word), word))
    return ordered[: len(ordered) - math.ceil(threshold * len(ordered)) + 1]


def _sentences(text: str) -> list[tuple[str, ...]]:
    plain = unicodedata.normalize("NFKC", text).replace("’", "'")
    plain = _OPENING.sub("", plain).casefold()
    for pattern, full in _CONTRACTIONS:
        plain = pattern.sub(full, plain)
    sentences = (
        tuple(token.rstrip(".,:/-") or token for token in _TOKEN.findall(part) if token not in _FILLERS)
        for part in _SENTENCE_END.split(plain)
    )
    return [sentence for sentence in sentences if sentence]


def _flat(sentences: list[tuple[str, ...]]) -> list[str]:
    return [token for sentence in sentences for token in sentence]

"""When two texts say the same thing: word Jaccard, and a strict guard on what differs between them."""

import math
import re
from collections.abc import Iterable, Iterator

from r3_lite.text import folded, word_set

# r3's threshold: above it two texts are near matches.
NEAR_MATCH = 0.85
# From here on a stored text is worth showing to the caller who adds another like it.
SIMILAR = 0.6

# Words whose presence changes no fact. Every other word on one side only makes a different statement.
_FILLERS = frozenset(
    "a an the really so just very also super totally actually definitely pretty quite some please oh hey".split()
)
# Behind one of these a filler is what is denied: "not just tea" is not "not tea".
_NEGATIONS = frozenset({"not", "no", "never", "nor", "without"})
# A sentence that begins so says something about the one before it: the two cannot change places.
_BACK_REFERENCES = frozenset("yes no then next later afterwards finally instead but however".split())
_OPENING = re.compile(
    r"^\s*(?:(?:note\s+that|fyi|btw|by\s+the\s+way|(?:please\s+)?remember(?:\s+that)?|just\s+so\s+you\s+know|"
    r"for\s+the\s+record)\b\s*(?:[:,]|[-–—](?!\S))?|(?:note|reminder|quick\s+update|well)\s*(?:[:,]|[-–—](?!\S)))\s*"
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
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_TOKEN = re.compile(
    # A number with its sign, separators and unit sign (feet and inches too).
    r"""[-+]?\.?\d[\d.,:/-]*\w*[%'"]?"""
    # A word: "c++", "c#", ".net".
    r"""|(?<![\w.])\.?[^\W\d]\w*[+#]*|\w+[+#]*"""
    # A hyphen inside or at the end of a word, a minus.
    r"""|(?<=\w)[‐–-]|-(?=[^\W\d])|[–—-](?=\s*\d)"""
    # Any other sign: "?" makes a question of a statement, "≤" and "≥" differ, so do "€" and "$", "✅" and "❌".
    r"""|!(?=[=\w])|[^\w\s.,;:!"'‘’“”„«»`()\[\]{}¡¿•、。「」『』【】‐–—-]"""
)


def jaccard(a: str, b: str) -> float:
    """Return the share of distinct words two texts have in common, 0 to 1 (1 for two texts without words)."""
    return share(word_set(a), word_set(b))


def share(first: frozenset[str], second: frozenset[str]) -> float:
    """Return the share of the elements of two sets that are in both, 0 to 1 (1 for two empty sets)."""
    union = len(first | second)
    return len(first & second) / union if union else 1.0


def same_meaning(a: str, b: str) -> bool:
    """Tell whether what differs between two near matches cannot change the meaning.

    Contractions are written out, openings ("By the way, ") and fillers left aside; the words that remain must be
    the same in the same order, or be two sentences that change places. A number, date, name, negation, unit or
    word order that differs makes it another statement, and so does any further content word on one side.
    """
    first, second = _sentences(a), _sentences(b)
    return _flat(first) == _flat(second) or (_movable(first) and _movable(second) and first == second[::-1])


def required_overlap(words: Iterable[str], threshold: float) -> list[str]:
    """Return words of which every text with Jaccard >= `threshold` to these shares at least one, longest first.

    Prefix filtering: such a text shares at least ceil(threshold * n) of the n words, so it cannot miss more than
    n - ceil(threshold * n) of any choice. Long words are chosen because they are rare.
    """
    ordered = sorted(words, key=lambda word: (-len(word), word))
    # 0.55 * 20 is a little more than 11 in floating point: without the allowance one word would be missing.
    return ordered[: len(ordered) - math.ceil(threshold * len(ordered) - 1e-9) + 1]


def _sentences(text: str) -> list[tuple[str, ...]]:
    plain = _OPENING.sub("", folded(text).replace("’", "'"))
    for pattern, full in _CONTRACTIONS:
        plain = pattern.sub(full, plain)
    sentences = (tuple(_content(_TOKEN.findall(part))) for part in _SENTENCE_END.split(plain))
    return [sentence for sentence in sentences if sentence]


def _content(tokens: list[str]) -> Iterator[str]:
    previous = ""
    for token in tokens:
        if token not in _FILLERS or previous in _NEGATIONS:
            yield "-" if token in "‐–" else token.rstrip(".,:/-") or token
        previous = token


def _movable(sentences: list[tuple[str, ...]]) -> bool:
    return len(sentences) == 2 and not any(sentence[0] in _BACK_REFERENCES for sentence in sentences)


def _flat(sentences: list[tuple[str, ...]]) -> list[str]:
    return [token for sentence in sentences for token in sentence]

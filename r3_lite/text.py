"""What counts as a word: tokens, stop words, scripts without spaces, normalised text and its hash."""

import hashlib
import itertools
import re
import unicodedata
from functools import lru_cache

# Scripts whose words are not set apart by spaces, and Hangul, whose particles cling to the word before them:
# Thai, Lao, Tibetan, Myanmar, Khmer · Hangul Jamo · kana, bopomofo, Han and their extensions · Hangul ·
# compatibility ideographs, half-width kana, supplementary ideographs.
_SPACELESS = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u1100-\u11ff"
    "\u3005-\u3007\u3040-\u30ff\u3100-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f"
    "\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc\U0001b000-\U0001b16f\U00020000-\U000323af"
)
_SPACELESS_CHARACTER = re.compile(f"[{_SPACELESS}]")
_SPACELESS_RUN = re.compile(f"[{_SPACELESS}]+")
_POSSESSIVE = re.compile(r"(?<=\w)['’]s\b", re.IGNORECASE)

# The usual function words of English, without the ones that carry a meaning of their own in notes.
STOP_WORDS = frozenset(
    """a about above after again all also am an and any are as at be because been before being below between
    both but by can could did do does doing down during each few for from further get got had has have having
    he her here hers him his how i if in into is it its itself just let me more most my no nor not now of off on
    once only or other our out over own s same she should so some such t than that the their them then there
    these they this those through to too under until up very was we were what when where which while who whom
    whose why will with would you your yours""".split()
)


@lru_cache(maxsize=4096)
def _is_word_character(character: str) -> bool:
    # Letters, digits and combining marks, as the keyword index has it: without the marks Hindi and Thai fall apart.
    return unicodedata.category(character)[0] in "LNM"


def words(text: str) -> list[str]:
    """Split text into words as the keyword index does: runs of letters, digits and combining marks."""
    if text.isascii():
        return re.findall(r"[A-Za-z0-9]+", text)
    return "".join(c if _is_word_character(c) else " " for c in text).split()


def space_out(text: str) -> str:
    """Return text with each character of a spaceless script set apart, or "" where it has none.

    The second half of the keyword index: a word from the middle of a Chinese sentence is found as the
    sequence of its characters, and a name in Latin letters glued to it as a word of its own.
    """
    if text.isascii() or not _SPACELESS_CHARACTER.search(text):
        return ""
    return _SPACELESS_CHARACTER.sub(lambda match: f" {match[0]} ", text)


def query_terms(query: str, *, limit: int = 64) -> list[str]:
    """Return what to look for in the keyword index: distinct words, or phrases of spaced characters.

    Stop words are dropped unless nothing else is left. A run of a spaceless script becomes its overlapping
    pairs of characters ("東京都" → "東 京", "京 都"), a single character stays alone. At most `limit` terms.
    """
    found: list[str] = []
    for word in words(_POSSESSIVE.sub("", query[:20_000])):
        position = 0
        for run in _SPACELESS_RUN.finditer(word):
            found.append(word[position : run.start()])
            characters = run[0]
            pairs = [f"{a} {b}" for a, b in itertools.pairwise(characters)]
            found.extend(pairs or [characters])
            position = run.end()
        found.append(word[position:])
    distinct = list(dict.fromkeys(term.lower() for term in found if term))
    return ([term for term in distinct if term not in STOP_WORDS] or distinct)[:limit]


def word_set(text: str) -> frozenset[str]:
    """Return the set of lower-case words that Jaccard similarity compares; spaceless scripts by character."""
    return frozenset(words(unicodedata.normalize("NFKC", space_out(text) or text).casefold()))


def normalised(text: str) -> str:
    """Return text without what cannot change its meaning: Unicode form, case, white space, punctuation.

    Signs that carry meaning stay: question marks, minus and plus, decimal points and separators inside numbers,
    powers, currency, percent, and the symbols of names such as C++ and C#. Text with no letter or digit at all
    only loses its outer space.
    """
    folded = unicodedata.normalize("NFKC", _POWER.sub(r"^\g<0>", text)).casefold()
    kept = _MEANINGLESS.sub(" ", folded)
    return " ".join(kept.split()) or folded.strip()


def text_hash(text: str) -> str:
    """Return 128 bits of the SHA-256 of the normalised text in hexadecimal: equal for the same statement."""
    return hashlib.sha256(normalised(text).encode()).hexdigest()[:32]


# NFKC would make "10²" read "102".
_POWER = re.compile("[⁰¹²³⁴-⁹⁻]+")

# Quotes, brackets, dashes between words, sentence marks. Not between digits ("1.5", "03-04", "12:30"), not
# before a digit ("-5", ".5") and no symbol ("+", "#", "%", "$", "=", "<", emoji).
_MEANINGLESS = re.compile(
    r"""["“”„«»'‘’`´()\[\]{}¡¿…·•、。，；！「」『』【】]"""
    r"""|[.,:;!](?!\w)|(?<!\w)[,:;](?=\w)|[–—-](?!\w)|(?<=\w)[–—-](?=[^\W\d])|_(?=\s)|(?<=\s)_"""
)

"""When two texts say the same thing: word Jaccard, and a strict guard on what differs between them."""

import hashlib
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from r3_lite import sentences
from r3_lite.english import (
    AUXILIARIES,
    COPULAS,
    FEELINGS,
    GRADED,
    LIMITS,
    OPINIONS,
    PAST,
    PERSONS,
    SUBJECT_OPENINGS,
    SUBJECTS,
)
from r3_lite.text import normalised, word_set

T = TypeVar("T", str, int)

# r3's threshold: above it two texts are near matches.
NEAR_MATCH = 0.85
# From here on a stored text is worth showing to the caller who adds another like it.
SIMILAR = 0.6

_OPENING = re.compile(
    r"^\s*(?:(?:note\s+that|remember\s+that|please\s+remember\s+that|fyi|btw)\b\s*(?:[:,]|-(?!\S))?|"
    r"(?:by\s+the\s+way|just\s+so\s+you\s+know|for\s+the\s+record|oh|hey)\s*(?:[:,]|-(?!\S))|"
    r"(?:please\s+)?(?:remember|note|reminder|quick\s+update)\s*(?:[:,]|-(?!\S))|well\s*,)\s*",
    re.IGNORECASE,
)
# Words that may only add emphasis; `_is_filler` says where.
_FILLERS = frozenset("really very so super totally pretty actually definitely also please".split())
_FILLER_NAME = re.compile(
    r"(?<=\S )(?:Really|Very|So|Super|Totally|Pretty|Actually|Definitely|Also|Please)(?!\w)|"
    r"(?<!\w)(?:really|very|so|super|totally|pretty)(?= [A-HJ-Z])|"
    r"^(?:Really|Very|So|Super|Totally|Pretty|Actually|Definitely|Also|Please)(?= [^\W\d_a-z])"
)
# Opinions that are qualities too: a very cool place is a colder one.
_MEASURED = frozenset("cool sweet special smart kind fun good bad easy rough tough important".split())
_CLOSING = frozenset(". , - and but when".split())
_LINKS = COPULAS | frozenset({"am", "seem", "seems", "seemed", "can", "do", "does", "have", "has"})
_BEFORE_OPINION = COPULAS | frozenset("a an i'm it's that's me you him her us them made makes make and s ' , -".split())
# Longer sentences are compared word by word.
_MAX_TOKENS = 300
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
_SHORTENED = re.compile(r"'|cannot|\ba (?:few|little)\b")
_TOKEN = re.compile(r"\s+|[^\W_]+|.")


def jaccard(a: str, b: str) -> float:
    """Return the share of distinct words two texts have in common, 0 to 1 (1 for two texts without words)."""
    return share(word_set(a), word_set(b))


def share(first: frozenset[T], second: frozenset[T]) -> float:
    """Return the share of the elements of two sets that are in both, 0 to 1 (1 for two empty sets)."""
    union = len(first | second)
    return len(first & second) / union if union else 1.0


@dataclass(frozen=True, slots=True)
class Wording:
    """What decides whether a text says the same as another, as digests of 128 bits: compare by `same`.

    `statement` is the same for the same statement. `plain` is of the text as one without punctuation would write it,
    None where that could be misread; `unpunctuated` tells that it was written so.
    """

    statement: bytes
    plain: bytes | None
    unpunctuated: bool


def wording(text: str) -> Wording:
    """Return what a text is compared by."""
    unpunctuated = sentences.is_unpunctuated(text)
    plain = " ".join(text.split()) if unpunctuated else sentences.without_punctuation(text)
    return Wording(_digest(_statement(text)), _digest(plain) if plain is not None else None, unpunctuated)


def same(a: Wording, b: Wording) -> bool:
    """Tell whether what differs between two texts cannot change the meaning.

    They are the same text after normalisation, once contractions are written out, openings ("By the way, ") and
    intensifiers of opinions ("so happy") left aside, and sentences that do not hang on each other put in one order. Or
    one is typed without capitals and punctuation, and the other reads the same without its own. A number, date, name,
    negation, unit, sign or word order that differs makes another statement, and so does any further word.
    """
    if a.statement == b.statement:
        return True
    return (a.unpunctuated or b.unpunctuated) and a.plain is not None and a.plain == b.plain


def same_meaning(a: str, b: str) -> bool:
    """Tell whether two texts say the same, as `same` has it."""
    return same(wording(a), wording(b))


def group(wordings: Sequence[Wording]) -> list[list[int]]:
    """Return the groups of texts that say the same, as indexes: the first of each, then what says the same as it.

    In the order given (the oldest first) each text that no earlier one has taken takes all later ones that say the same
    as itself: nothing is in two groups, or in one only because a third is between them. Linear in the number of texts.
    """
    by_statement: defaultdict[bytes, list[int]] = defaultdict(list)
    by_plain: defaultdict[bytes, list[int]] = defaultdict(list)
    for place, one in enumerate(wordings):
        by_statement[one.statement].append(place)
        if one.plain is not None:
            by_plain[one.plain].append(place)
    taken = bytearray(len(wordings))
    groups = []
    for place, one in enumerate(wordings):
        if taken[place]:
            continue
        others = set(by_statement[one.statement])
        if one.plain is not None:
            others.update(other for other in by_plain[one.plain] if same(one, wordings[other]))
        members = [place, *sorted(other for other in others if other > place and not taken[other])]
        if len(members) > 1:
            groups.append(members)
            for member in members:
                taken[member] = True
    return groups


def required_overlap(words: Iterable[str], threshold: float) -> list[str]:
    """Return words of which every text with Jaccard >= `threshold` to these shares at least one, longest first.

    Prefix filtering: such a text shares at least ceil(threshold * n) of the n words, so it cannot miss more than
    n - ceil(threshold * n) of any choice. Long words are chosen because they are rare.
    """
    ordered = sorted(words, key=lambda word: (-len(word), word))
    # 0.55 * 20 is a little more than 11 in floating point: without the allowance one word would be missing.
    return ordered[: len(ordered) - math.ceil(threshold * len(ordered) - 1e-9) + 1]


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _statement(text: str) -> str:
    pieces = sentences.split(_without_opening(text))
    if len(pieces) > 1:
        opened = [_without_opening(piece) for piece in pieces]
        forms = [_canonical(piece) for piece in opened]
        if sentences.any_order(opened, forms):
            return "\n".join(sorted(forms))
    return "\n".join(map(_canonical, pieces))


def _without_opening(text: str) -> str:
    match = _OPENING.match(text)
    if match is None:
        return text
    rest = text[match.end() :]
    begin = rest[:200].split()
    # What is left must be a statement: "Note 7 explodes", "Note: 2" are not about a note.
    if len(begin) < 3 or not all(any(map(str.isalpha, word)) for word in begin[:2]):
        return text
    # "Remember that time in Oslo" points at a time.
    points = match[0].rstrip().endswith("that") and rest[0].islower() and begin[0] not in SUBJECT_OPENINGS
    return text if points else rest


def _canonical(sentence: str) -> str:
    """Return a normalised sentence with contractions written out and without fillers."""
    if sentence[1:].lower() != sentence[1:]:
        sentence = _FILLER_NAME.sub(r"^\g<0>", sentence)
    plain = normalised(sentence)
    if _SHORTENED.search(plain):
        for pattern, full in _CONTRACTIONS:
            plain = pattern.sub(full, plain)
    tokens = [token for token in _TOKEN.findall(plain) if not token.isspace()]
    if len(tokens) > _MAX_TOKENS:
        return " ".join(tokens)
    kept = [token for place, token in enumerate(tokens) if token not in _FILLERS or not _is_filler(tokens, place)]
    return " ".join("a" if token == "an" else token for token in kept)


def _is_filler(tokens: list[str], place: int) -> bool:
    """Tell whether a word only adds emphasis where it stands: not in a denial or condition, not as another word."""
    word = tokens[place]
    previous, following = tokens[place - 1] if place else "", tokens[place + 1] if place + 1 < len(tokens) else ""
    # What is denied in front of ", but" is denied no more; "no wonder" denies nothing.
    scope = " ".join(tokens[:place]).rpartition(" , but ")[2].replace("no wonder", "").split()
    if not following.isalpha() or LIMITS.intersection(scope):
        return False
    # "So heavy that it broke" states more than emphasis.
    free = {"that", "as", "for", "so"}.isdisjoint(tokens[place + 2 : place + 4])
    after = tokens[place + 2] if place + 2 < len(tokens) else "."
    predicate = previous in _BEFORE_OPINION or not place or (place + 2 == len(tokens) and previous != "the")
    match word:
        case "also":
            return previous in SUBJECTS and following not in LIMITS
        case "please":
            return not place and following not in PERSONS | SUBJECTS | {"me", "us", "and", "note"}
        case "actually" | "definitely":
            return previous in SUBJECTS | AUXILIARIES and following not in LIMITS | SUBJECTS
        case "really" | "so" if previous in _LINKS and following not in GRADED | LIMITS:
            # Behind a verb of being it adds emphasis to any quality; a noun phrase could be narrowed by it.
            return free and (word == "really" or following in OPINIONS or after in _CLOSING)
        case "really":
            attached = previous in SUBJECTS | {"that", "those", "these"} or following in FEELINGS | PAST
            return following not in LIMITS and (attached or (predicate and following in OPINIONS))
        case "so":
            return free and (
                following in {"much", "many", "well", "different"} or (predicate and following in OPINIONS)
            )
        case _:
            tame = following not in _MEASURED or not (word == "very" or previous in {"a", "an"})
            return predicate and tame and following in OPINIONS

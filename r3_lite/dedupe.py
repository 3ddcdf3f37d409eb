"""When two texts say the same thing: word Jaccard, and a strict guard on what differs between them."""

import hashlib
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from r3_lite import sentences
from r3_lite.english import COPULAS, FEELINGS, GRADED, INTERJECTIONS, LIMITS, OPINIONS, PAST, PERSONS, SUBJECTS, VAGUE
from r3_lite.english import SUBJECT_OPENINGS as OPENINGS
from r3_lite.text import DENIAL, normalised, word_set

T = TypeVar("T", str, int)
# Digests of 128 bits of the ways to read a text.
Wording = frozenset[bytes]

# r3's threshold: above it two texts are near matches.
NEAR_MATCH = 0.85
# From here on a stored text is worth showing to the caller who adds another like it.
SIMILAR = 0.6
# Characters of a text up to which it is compared word by word; a long document is only ever the same or another.
MAX_COMPARED = 20_000

_OPENING = re.compile(
    r"^\s*(?:(?:note\s+that|remember\s+that|please\s+remember\s+that|fyi|btw)\b\s*(?:[:,]|-(?!\S))?|"
    r"(?:by\s+the\s+way|just\s+so\s+you\s+know|for\s+the\s+record|oh|hey)\s*(?:[:,]|-(?!\S))|"
    r"(?:please\s+)?(?:remember|note|reminder|quick\s+update)\s*(?:[:,]|-(?!\S))|well\s*,|"
    r"(?:definitely|totally)\s*[!,.])\s*",
    re.IGNORECASE,
)
# Words that may only add emphasis; `_is_filler` says where.
_FILLERS = frozenset("really very so super totally pretty actually definitely also please just some".split())
# "The Very Large Telescope": with a capital, or in front of one, it is part of a name.
_FILLER_NAME = re.compile(
    r"(?<=[^\W_] )(?:Really|Very|So|Super|Totally|Pretty|Actually|Definitely|Also|Please|Just|Some)(?!\w)|"
    r"(?<!\w)(?:really|very|so|super|totally|pretty|just|some)(?= [A-HJ-Z])|"
    r"^(?:Really|Very|So|Super|Totally|Pretty|Actually|Definitely|Also|Please|Just|Some)(?= [A-HJ-Z])"
)
# Opinions that are qualities too: a very cool place is a colder one.
_MEASURED = frozenset("cool sweet special smart good bad easy rough tough".split())
_LINKS = COPULAS | frozenset(
    "am seem seems seemed i'm it's that's you're we're they're he's she's getting gets got".split()
)
_NARROWING = frozenset("the these those any all every each my your his her our their no".split())
_MODAL = frozenset("will would won't shall should must may might could".split())
_AFTER_SO = OPENINGS | OPINIONS | frozenset("much many what how where when who why have did".split())
_CONDITIONS = frozenset("when who which".split())
_NUMBERS = frozenset("one two three four five six seven eight nine ten twelve once twice half".split())
# Of these "some" names a share, or a time.
_PARTS = frozenset("of people day days times one ones".split())
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
# Two words with a hyphen are one without it, but for prefixes: to re-sign is not to resign.
_JOINED = re.compile(
    r"(?<![\w/.-])(?!(?:out|over|under|dis|mis|pre|re|un|co|de|in|non|sub|anti|counter|inter|super|semi|mid|off|ex)-)"
    r"[a-z]{2,}(?:-[a-z]{2,})+(?![\w/.-])"
)


def jaccard(a: str, b: str) -> float:
    """Return the share of distinct words two texts have in common, 0 to 1 (1 for two texts without words)."""
    return share(word_set(a), word_set(b))


def share(first: frozenset[T], second: frozenset[T]) -> float:
    """Return the share of the elements of two sets that are in both, 0 to 1 (1 for two empty sets)."""
    union = len(first | second)
    return len(first & second) / union if union else 1.0


def wording(text: str) -> Wording:
    """Return what decides whether a text says the same as another: compare by `same`.

    One digest of its words in their order, one of its statement, without openings and emphasis, and one of its
    sentences in no order, where they say the same in any.
    """
    plain = _without_hyphens(normalised(text))
    pieces = sentences.split(_without_opening(text))
    forms = [_canonical(piece) for piece in pieces]
    readings = [plain, _in_a_row(forms)]
    if len(pieces) > 1:
        opened = [_without_opening(piece) for piece in pieces]
        unmarked = [form if a == b else _canonical(a) for a, b, form in zip(opened, pieces, forms, strict=True)]
        if sentences.any_order(opened, unmarked):
            readings.append("\n".join(sorted(unmarked)))
    return frozenset(map(_digest, readings))


def same(a: Wording, b: Wording) -> bool:
    """Tell whether what differs between two texts cannot change the meaning.

    They are the same text after normalisation; or once contractions are written out, openings ("By the way, ") and
    emphasis ("so happy") left aside; or with sentences that do not hang on each other in another order. A number, date,
    name, negation, unit, sign or word order that differs makes another statement, and so does any further word.
    """
    return not a.isdisjoint(b)


def same_meaning(a: str, b: str) -> bool:
    """Tell whether two texts say the same, as `same` has it."""
    return same(wording(a), wording(b))


def group(wordings: Sequence[Wording], authors: Sequence[str | None] | None = None) -> list[list[int]]:
    """Return the groups of texts that say the same, as indexes: the first of each, then what says the same as it.

    In the order given (the oldest first) each text that no earlier one has taken takes all later ones that say the same
    as itself: nothing is in two groups, or in one only because a third is between them. Statements of different
    `authors` (as `author_key` has them) are different statements. One without an author is nobody else's, and so goes
    with that of an author unless several made it. Linear in the number of texts.
    """
    by = authors or [None] * len(wordings)
    places: defaultdict[bytes, list[int]] = defaultdict(list)
    names: defaultdict[bytes, set[str]] = defaultdict(set)
    for place, (one, author) in enumerate(zip(wordings, by, strict=True)):
        for digest in one:
            places[digest].append(place)
            if author is not None:
                names[digest].add(author)
    taken = bytearray(len(wordings))
    groups = []
    for place, one in enumerate(wordings):
        if taken[place]:
            continue
        others = {other for digest in one for other in places[digest] if other > place and not taken[other]}
        if len(set().union(*(names[digest] for digest in one))) > 1:
            others = {other for other in others if by[other] == by[place]}
        if others:
            groups.append([place, *sorted(others)])
            for other in others:
                taken[other] = True
    return groups


def author_key(author: str | None) -> str | None:
    """Return the form in which spellings of an author's name are equal; None for a blank one, as for none."""
    return " ".join((author or "").casefold().split()) or None


def author_of(metadata: Mapping[str, Any]) -> str | None:
    """Return the `author_key` of what metadata calls the author, as the column `author` of the file has it."""
    named = (metadata.get(key) for key in ("author", "speaker", "name", "role"))
    name = next((value for value in named if value is not None), None)
    return None if name is None else author_key(str(name))


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


def _without_hyphens(plain: str) -> str:
    return _JOINED.sub(lambda match: match[0].replace("-", ""), plain) if "-" in plain else plain


def _in_a_row(forms: Sequence[str]) -> str:
    """Return sentences as one text; a denial keeps the mark behind it, as in a normalised text."""
    *others, last = forms
    return " ".join([form + "," * bool(DENIAL.fullmatch(form.rpartition(" ")[2])) for form in others] + [last])


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
    points = match[0].rstrip().endswith("that") and rest[0].islower() and begin[0] not in OPENINGS
    return text if points else _without_opening(rest)


def _canonical(sentence: str) -> str:
    """Return a normalised sentence with contractions written out and without fillers."""
    if sentence[1:].lower() != sentence[1:]:
        sentence = _FILLER_NAME.sub(r"^\g<0>", sentence)
    plain = _without_hyphens(normalised(sentence))
    if _SHORTENED.search(plain):
        for pattern, full in _CONTRACTIONS:
            plain = pattern.sub(full, plain)
    tokens = plain.split(" ")
    if len(tokens) > _MAX_TOKENS:
        return plain
    # From the end, so that "just really enjoy" is judged by what is left of it.
    for place in range(len(tokens) - 1, -1, -1):
        if tokens[place] in _FILLERS and _is_filler(tokens, place):
            del tokens[place]
    return " ".join("a" if token == "an" else token for token in tokens)


def _is_filler(tokens: list[str], place: int) -> bool:
    """Tell whether a word only adds emphasis where it stands: not in a denial or condition, not as another word."""
    word = tokens[place]
    previous, following = tokens[place - 1] if place else "", tokens[place + 1] if place + 1 < len(tokens) else ""
    # What is denied in front of "but" is denied no more; "no wonder" denies nothing.
    scope = " ".join(tokens[:place]).rpartition(" but ")[2].replace("no wonder", "").split()
    ahead = tokens[place + 1 : place + 4]
    if len(tokens) == 2 and word in {"actually", "definitely", "totally"}:
        return previous in INTERJECTIONS
    # "Users who actually paid", "when it is really cold": a condition.
    if _CONDITIONS.intersection(scope) or (previous == "that" and place > 1):
        return False
    if LIMITS.intersection(scope) or LIMITS.intersection(ahead[:2]) or not following[:1].isalpha():
        return False
    opening = not place
    quality = previous not in _NARROWING
    # "So heavy that it broke" and "so tired I fell asleep" state more than emphasis.
    free = {"that", "as", "so"}.isdisjoint(ahead[1:]) and SUBJECTS.isdisjoint(ahead[1:2])
    match word:
        case "also":
            return (opening or previous in SUBJECTS | COPULAS) and "only" not in scope
        case "please":
            return opening and following not in PERSONS | SUBJECTS | {"me", "us", "and", "note"}
        case "actually" | "definitely" | "totally" if following not in OPINIONS:
            return quality and previous not in _MODAL and following not in SUBJECTS - {"i"}
        case "really":
            return quality
        case "so" if opening:
            return following in _AFTER_SO or (len(tokens) < 5 and following not in GRADED)
        case "so":
            described = following in OPINIONS or (previous in _LINKS and following not in GRADED)
            return free and quality and (described or following in {"much", "many", "well", "hard"})
        case "just":
            done = following in PAST | FEELINGS or (following.endswith("ed") and len(following) > 4)
            begun = following in {"been", "keep"} or (opening and following.endswith("ing"))
            return (done or begun) and _NUMBERS.isdisjoint(ahead) and not any(map(str.isdigit, "".join(ahead)))
        case "some":
            taken = previous in VAGUE | PAST or (previous.endswith(("ed", "ing")) and len(previous) > 4)
            taken = taken or (place > 1 and tokens[place - 2] in {"to", "let's", "gonna", "wanna"})
            liked = following in OPINIONS and not opening and quality
            ago = following == "time" and previous not in VAGUE
            return (taken or liked) and following not in OPENINGS | _PARTS and not ago
        case _:
            tame = following not in _MEASURED or not (word == "very" or previous in {"a", "an"})
            judged = previous in _LINKS and following.endswith("ing") and len(following) > 6
            return quality and tame and (judged or following in OPINIONS)

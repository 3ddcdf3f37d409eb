"""The sentences of a short text, and whether it says the same with them in another order.

That is answered with no where there is doubt, and for other languages than English nearly always.
"""

import re
from collections.abc import Sequence

from r3_lite.english import (
    ADVERBS,
    ANSWERS,
    COMPLIMENTS,
    CONNECTIVES,
    COPULAS,
    DENIALS,
    ELLIPSIS,
    INTERJECTIONS,
    OPINIONS,
    PAST,
    PERSONS,
    PHRASES,
    QUESTION_WORDS,
    SEQUENCE,
    SPEECH,
    SUBJECT_OPENINGS,
    SUBJECTS,
    TURNS,
)

# Longer texts are compared as they stand.
MAX_SENTENCES = 8
MAX_LENGTH = 2_000

_BOUNDARY = re.compile(r"(?<=[^\W\d_]{2})(?P<end>[.!?…]+)\s+")
_ABBREVIATION = re.compile(
    r"(?:^|\W)(?:dr|mr|mrs|ms|st|mt|prof|no|vs|etc|inc|ltd|jr|sr|gen|fig|approx|al|ca|dept|v)$", re.I
)
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_CONTRACTIONS = (
    (re.compile(r" ' "), "'"),
    (re.compile(r"\b(it|that|he|she|what|there|here|who|where) is\b"), r"\1's"),
    (re.compile(r"\bi am\b"), "i'm"),
    (re.compile(r"\b(we|you|they) are\b"), r"\1're"),
    (re.compile(r"(?<!do )(?<!did )(?<!will )\b(i|we|you|they) have\b"), r"\1've"),
    (re.compile(r"\b(i|we|you|they|he|she|it) will\b"), r"\1'll"),
    (re.compile(r"\bcan ?not\b"), "can't"),
    (re.compile(r"\bwill not\b"), "won't"),
    (re.compile(r"\b(do|does|did|is|are|was|were|has|have|had|should|would|could) not\b"), r"\1n't"),
)
_OPENERS = INTERJECTIONS | ADVERBS
_WAS = frozenset("was were had wasn't weren't".split())
# "My aunts called my sisters. They were late."
_DETERMINERS = frozenset("the a an my your his her our their".split())
_THEY = frozenset("they them their theirs themselves who whose".split())
_SMALL = frozenset("for to of in on at with by from and or so but not no".split())
_FINITE = COPULAS | frozenset("has have will can must must've lives works likes".split())
_ALLOWING = frozenset("may might must".split())
_SPEAKERS = frozenset("i i'm i've we we're we've it's they they're".split())
_MEANT = frozenset("it its it's that's them one ones".split())
_PRONOUNS = frozenset("it its it's that that's this these those them one ones".split())


def split(text: str) -> list[str]:
    """Return the sentences of a text of one line, each with the mark that ends it; any other text in one piece."""
    text = text.strip()
    if "\n" in text or len(text) > MAX_LENGTH:
        return [text]
    pieces, start = [], 0
    for match in _BOUNDARY.finditer(text):
        if not text[match.end() : match.end() + 1].isalpha() or _ABBREVIATION.search(text[start : match.start()]):
            continue
        pieces.append(text[start : match.end("end")])
        start = match.end()
    return [*pieces, text[start:]]


def any_order(sentences: Sequence[str], plain: Sequence[str]) -> bool:
    """Tell whether sentences say the same in any order; the answer does not depend on the order they come in.

    They are given as they were written, and normalised, without emphasis.

    No, where one takes up another (then, instead, he), answers it, or leaves out what another says, where two are
    events or orders, and where two speak of the same subject: the later of two values is the one that holds. A pronoun
    is allowed in one of two sentences, where it can mean nothing else.
    """
    if not 2 <= len(sentences) <= MAX_SENTENCES:
        return False
    # Speech, lists, code and places in a document are left alone.
    if any(re.search(r"[“”„«»:;()\[\]{}<>=*#|/\\`_]", sentence) for sentence in sentences):
        return False
    parts = [_words(sentence) for sentence in plain]
    # A title may stand in quotation marks, speech may not.
    if any(s.count('"') % 2 or ('"' in s and SPEECH.intersection(p)) for s, p in zip(sentences, parts, strict=True)):
        return False
    if not all(parts):
        return False
    comments = [_is_comment(words, sentence) for words, sentence in zip(parts, sentences, strict=True)]
    asked = [sentence.rstrip().endswith("?") for sentence in sentences]
    if any(asked) and any(
        c and (words[0] in ANSWERS or words[-1] in ELLIPSIS) for words, c in zip(parts, comments, strict=True)
    ):
        return False
    stated = [(w, s) for w, s, c in zip(parts, sentences, comments, strict=True) if not c]
    if any(_takes_up([*_words(sentence)[:1], *words], any(asked)) for words, sentence in stated):
        return False
    if len(stated) < 2:
        # Beside comments a fact stands wherever it stands.
        return True
    if any(_leans(words, sentence) for words, sentence in stated) or not _pronouns_stay(parts, sentences):
        return False
    told = [words for words, sentence in stated if not sentence.rstrip().endswith("?")]
    if len(told) < len(stated) and any(map(_may_answer, told)):
        return False
    # "I was poor. I became rich.": what was so counts beside what happened.
    events = sum(map(_is_event, (words for words, _ in stated)))
    events += bool(events) and any(not _is_event(words) and _WAS.intersection(words) for words, _ in stated)
    orders = sum(words[0] == "let's" or not _has_subject(_body(words)) for words in told)
    # Beside what is so, an order may stand anywhere; not beside what happened, may happen, or is another order.
    if events > 1 or (orders and (orders > 1 or events or any(map(_ALLOWING.intersection, told)))):
        return False
    return not any(_alike(a, b) for n, (a, _) in enumerate(stated) for b, _ in stated[:n])


def _words(sentence: str) -> list[str]:
    """Return the words of a sentence in lower case, with all that can be contracted contracted."""
    text = sentence.lower().replace("’", "'")
    for pattern, short in _CONTRACTIONS:
        text = pattern.sub(short, text)
    return _WORD.findall(text)


def _body(words: list[str]) -> list[str]:
    """Return a sentence without what it begins with to address somebody: "Wow, Mel, that's" is "that's"."""
    start = 0
    while start < min(3, len(words)) and words[start] in _OPENERS:
        start += 1
    name = words[start : start + 1]
    if start and words[start + 1 : start + 2] and not SUBJECT_OPENINGS.union(_SMALL).intersection(name):
        start += words[start + 1] in SUBJECT_OPENINGS
    return words[start:]


def _is_comment(words: list[str], sentence: str) -> bool:
    """Tell whether a sentence is no more than a reaction: "Wow, great pic!", "That's so cool", "Thanks, Ana"."""
    body = _body(words)
    if " ".join(words) in PHRASES or " ".join(words[:-1]) in PHRASES or words[:2] == ["can't", "wait"]:
        return True
    if words[:2] in (["keep", "going"], ["have", "fun"]) and not DENIALS.intersection(words):
        return True
    if any(word in DENIALS or word.endswith("n't") for word in words):
        return False
    # "I will!", "Me too!", "So cute!"
    if len(words) < 5 and sentence.endswith("!") and (words[-1] in ELLIPSIS | {"too"} or OPINIONS.issuperset(words)):
        return True
    addressed = words[0] in INTERJECTIONS
    if addressed and len(body) <= 1:
        return True
    if COMPLIMENTS.intersection(words[:2] + body[: 2 if addressed else 1]):
        return not _has_subject(body)
    if words[0] in {"sounds", "looks", "good", "amazing"} or (addressed and not _has_subject(body) and len(words) <= 4):
        return bool(OPINIONS.intersection(words)) or words[:2] == ["sounds", "like"]
    judged = addressed or body[0] in {"that's", "it's", "this", "that"}
    return judged and len(body) <= 9 and bool(OPINIONS.intersection(body[1:5]))


def _takes_up(words: list[str], asked: bool) -> bool:
    """Tell whether a sentence begins by going on from another, or by answering a question."""
    first = words[0]
    answers = first in DENIALS or first == "because" or (asked and first in ANSWERS and first not in INTERJECTIONS)
    return first in CONNECTIVES or first in SEQUENCE or first == "anyway" or answers


def _leans(words: list[str], sentence: str) -> bool:
    """Tell whether a sentence depends on its place among others: in time, or for words that it leaves out."""
    question = sentence.rstrip().endswith("?")
    end = [word for word in words if word != "too"][-1:]
    left_out = end == [] or (end[0] in ELLIPSIS and not (question and len(words) > 4))
    body = _body(words)
    dated = SEQUENCE.intersection(words[:3] + words[-1:]) or TURNS.intersection(words)
    short = len(body) < 2 and not (sentence.rstrip().endswith("!") and OPINIONS.union({"enjoy"}).intersection(body))
    return left_out or " the other " in f" {' '.join(words)} " or bool(dated) or short


def _may_answer(words: list[str]) -> bool:
    body = _body(words)
    if body[:1] == ["that"] and body[1:2] in (["might"], ["could"], ["would"]):
        return False
    judges = words[0] in INTERJECTIONS or body[:1] in (["that's"], ["it's"], ["it"], ["those"], ["this"])
    if judges and OPINIONS.intersection(words):
        return False
    meant = _MEANT.intersection(words) or words[-1] in _PRONOUNS or words[0].split("'")[0] in PERSONS
    return bool(meant) or not _has_subject(body)


def _has_subject(body: list[str]) -> bool:
    if not body:
        return False
    first = body[0]
    if first in SUBJECT_OPENINGS or first in QUESTION_WORDS or (first.endswith("ing") and len(first) > 5):
        return True
    if first.endswith("'s") and len(first) > 3:
        return True
    # "Harry Potter is", "In winter I": an order has no finite verb so early, and no subject.
    early = {word for word in body[1:4] if word in _FINITE or word.endswith("'s")}
    return len(body) > 2 and bool(early or _SPEAKERS.intersection(body[1:5]))


def _is_event(words: list[str]) -> bool:
    """Tell whether a sentence tells of something that happened: told in another order it happened in another order."""
    for place, word in enumerate(words):
        before = set(words[max(0, place - 3) : place])
        state = before & (COPULAS | {"have", "has", "having", "get", "stay"}) or any(
            w.endswith(("'s", "'m", "'re", "'ve", "n't")) for w in before
        )
        if word in PAST and not state:
            return True
        if word.endswith("ed") and len(word) > 4 and place and not state and word not in OPINIONS:
            return True
    return False


def _pronouns_stay(parts: list[list[str]], sentences: Sequence[str]) -> bool:
    # Among three "that" may be the one or the other.
    if len(parts) > 2 and any(_PRONOUNS.intersection(words) for words in parts):
        return False
    people = [_unbound(words) for words in parts]
    named = any(re.search(r"(?<=[\w,] )[A-Z][a-z]", sentence) for sentence in sentences)
    things = [sum(word in _DETERMINERS for word in words) for words in parts]
    several = (
        any(words[0] in {"it", "it's", "they", "they're"} for words in parts)
        and max(things) > 1
        and any(map(_is_deed, parts))
    )
    if len(parts) == 2 and not named and not any(found - _THEY for found in people):
        return not several
    if not any(people):
        return True
    # "He lives in Rome. She lives in Oslo.": each names its subject by a pronoun, none can be the other's name.
    return all(words[0] in SUBJECTS for words in parts) or (len(parts) == 2 and all(people) and not named)


def _is_deed(words: list[str]) -> bool:
    """Tell whether a short sentence is of the form "the key opens the box"."""
    return len(words) < 8 and words[0] in _DETERMINERS and bool(_DETERMINERS.intersection(words[2:]))


def _unbound(words: list[str]) -> set[str]:
    """Return the pronouns for persons in a sentence; not "they" behind a plural, which it means then."""
    words = [word.split("'")[0] for word in words]
    for place, word in enumerate(words):
        if word.endswith("s") and len(word) > 4 and word not in PERSONS:
            return set(words[:place]) & PERSONS | (set(words) & PERSONS - {"they", "them", "their", "theirs"})
    return set(words) & PERSONS


def _alike(a: list[str], b: list[str]) -> bool:
    return a[:2] == b[:2] or len(set(a) & set(b)) * 2 >= len(set(a) | set(b))

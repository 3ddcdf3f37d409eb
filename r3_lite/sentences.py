"""The sentences of a short text, and whether it says the same with them in another order or without its punctuation.

Both are answered with no where there is doubt, and for other languages than English nearly always.
"""

import itertools
import re
from collections.abc import Sequence

from r3_lite.english import (
    ADVERBS,
    ANSWERS,
    AUXILIARIES,
    CAPITALS,
    COMPLIMENTS,
    CONNECTIVES,
    COPULAS,
    DENIALS,
    ELLIPSIS,
    INTERJECTIONS,
    NAMES,
    OPINIONS,
    PAST,
    PERSONS,
    PHRASES,
    QUESTION_WORDS,
    SEQUENCE,
    SPEECH,
    SUBJECT_OPENINGS,
    SUBJECTS,
)

# Longer texts are compared as they stand.
MAX_SENTENCES = 8
MAX_LENGTH = 2_000

_BOUNDARY = re.compile(r"(?<=[^\W\d_]{2})(?P<end>[.!?…]+)\s+")
_ABBREVIATION = re.compile(
    r"(?:^|\W)(?:dr|mr|mrs|ms|st|mt|prof|no|vs|etc|inc|ltd|jr|sr|gen|fig|approx|al|ca|dept|v)$", re.I
)
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_PLAIN = re.compile(r"[A-Za-z0-9' \n]*")
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
# Two words with a hyphen are one without it, but for prefixes: to re-sign is not to resign.
_JOINED = re.compile(
    r"(?<![A-Za-z])(?!(?:out|over|under|dis|mis|pre|non|sub|anti|counter|inter|super|semi|mid|ex)-)"
    r"[A-Za-z]{3,}-[A-Za-z]{3,}(?![A-Za-z-])"
)
# What a text may hold besides letters for its punctuation to be a matter of style alone.
_STYLED = re.compile(r"(?:[A-Za-z0-9' ]|(?<=[A-Za-z])[.!?…]+(?= |$)|(?<=[A-Za-z]),(?= )|(?<=[A-Za-z] )-(?= [A-Za-z]))*")
# In front of these a missing mark joins two sentences into one.
_RISKY = frozenset("not no only unless until because if or than".split())
# These may go on with the sentence before them, or belong to the one that they begin.
_CONTINUES = (
    SEQUENCE
    | ADVERBS
    | frozenset(
        "for to of in on at with by from about into without during after before since near under over through like as "
        "more less so enough too only even just still".split()
    )
) - {"also", "plus", "anyway", "however"}
# A sentence that begins so has no word to spare to the one before it; nor has one with these in the second place.
_FIRST = SUBJECT_OPENINGS | QUESTION_WORDS | INTERJECTIONS | frozenset("and also plus always both".split())
_SECOND = (
    AUXILIARIES
    | SUBJECT_OPENINGS
    | frozenset("me him us them up out off over to for of in on at with and or not really that".split())
)
_CARRIES = frozenset("go come help helped let make made try stop start keep please be get".split())
_CLAUSES = frozenset("i i'm i've i'll it it's we we're we'll you're let's that's huh which".split())
_OPENERS = INTERJECTIONS | ADVERBS
_ASKED = SUBJECTS | frozenset("there the this that those these any some your my".split())
_SMALL = frozenset("for to of in on at with by from and or so but not no".split())
_FINITE = COPULAS | frozenset("has have will can lives works likes".split())
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

    No, where one takes up another (then, instead, he, such), answers it, is an instruction or an event among others,
    or speaks of the same subject: the later of two values is the one that holds. A pronoun for a thing is
    allowed in one of two sentences, where it can mean nothing else.
    """
    if not 2 <= len(sentences) <= MAX_SENTENCES:
        return False
    # Speech, lists, code and places in a document are left alone.
    if any(re.search(r"[\"“”„«»:;()\[\]{}<>=*#|/\\`_]", sentence) for sentence in sentences):
        return False
    parts = [_words(sentence) for sentence in plain]
    if not all(parts):
        return False
    comments = [_is_comment(words) for words in parts]
    asked = [sentence.rstrip().endswith("?") for sentence in sentences]
    if any(asked) and any(c and words[0] in ANSWERS for words, c in zip(parts, comments, strict=True)):
        return False
    stated = [(w, q) for w, q, c in zip(parts, asked, comments, strict=True) if not c]
    if any(_takes_up(words) for words, _ in stated):
        return False
    if len(stated) < 2:
        # Beside comments a fact stands wherever it stands.
        return True
    if any(_leans(words, question) for words, question in stated) or not _pronouns_stay(parts, sentences):
        return False
    told = [words for words, question in stated if not question]
    if len(told) < len(stated) and any(map(_may_answer, told)):
        return False
    if sum(map(_is_event, (words for words, _ in stated))) > 1 or not all(_has_subject(_body(w)) for w in told):
        return False
    return not any(_alike(a, b) for n, (a, _) in enumerate(stated) for b, _ in stated[:n])


def without_punctuation(text: str) -> str | None:
    """Return the words of a text as one who types no punctuation and no capitals would write them.

    None where that could be read in another way: where words on both sides of a mark could belong together, where the
    mark makes the question, or where signs, numbers or capitals carry meaning.
    """
    text = text.strip()
    if len(text) > MAX_LENGTH or not "A" <= text[:1] <= "Z":
        return None
    text = text.replace("’", "'")
    if "-" in text:
        text = _JOINED.sub(lambda match: match[0].replace("-", ""), text)
    if not _STYLED.fullmatch(text):
        return None
    if any(word.capitalize() == word and word.lower() in NAMES for word in re.findall(r"(?<=[\w,] )[A-Z][a-z]+", text)):
        return None
    if any(word.lower() in CAPITALS for word in re.findall(r"(?<![\w'])[A-Z]{2,}(?![\w'])", text)):
        return None
    for mark in re.finditer(r"([A-Za-z']+)(?:[.!?…]+|,| -) +(?:- +)?(?=([A-Za-z0-9']+))", text):
        if not _evident(text, mark):
            return None
    for sentence in re.split(r"(?<=[.!?…])\s+", text):
        words = _words(sentence)
        if sentence.endswith("?") and words[-1:] != ["huh"] and not _asks(words):
            return None
    plain = _WORD.findall(text.lower())
    return " ".join(plain) if len(plain) > 3 else None


def is_unpunctuated(text: str) -> bool:
    """Tell whether a text was typed without capitals and punctuation: four words or more, letters and digits only."""
    text = text.strip()
    return text == text.lower() and len(text.split()) > 3 and bool(_PLAIN.fullmatch(text))


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


def _is_comment(words: list[str]) -> bool:
    """Tell whether a sentence is no more than a reaction: "Wow, great pic!", "That's so cool", "Thanks, Ana"."""
    body = _body(words)
    if " ".join(words) in PHRASES or " ".join(words[:-1]) in PHRASES or words[:2] == ["can't", "wait"]:
        return True
    if words[:2] in (["keep", "going"], ["have", "fun"]) and not DENIALS.intersection(words):
        return True
    if any(word in DENIALS or word.endswith("n't") for word in words):
        return False
    addressed = words[0] in INTERJECTIONS
    if addressed and len(body) <= 1:
        return True
    if COMPLIMENTS.intersection(words[:1] + body[: 2 if addressed else 1]):
        return not _has_subject(body)
    if words[0] in {"sounds", "looks", "good", "amazing"} or (addressed and not _has_subject(body) and len(words) <= 4):
        return bool(OPINIONS.intersection(words)) or words[:2] == ["sounds", "like"]
    judged = addressed or body[0] in {"that's", "it's", "this", "that"}
    return judged and len(body) <= 9 and bool(OPINIONS.intersection(body[1:5]))


def _takes_up(words: list[str]) -> bool:
    """Tell whether a sentence begins by going on from another."""
    return (
        words[0] in CONNECTIVES
        or words[0] in SEQUENCE
        or words[0] in ADVERBS
        or (words[0] in ANSWERS and words[0] not in INTERJECTIONS)
    )


def _leans(words: list[str], question: bool) -> bool:
    """Tell whether a sentence depends on its place among others: in time, or for words that it leaves out."""
    end = [word for word in words if word != "too"][-1:]
    left_out = end == [] or (end[0] in ELLIPSIS and not (question and len(words) > 4))
    return (
        left_out or ("other" in words and not question) or bool(SEQUENCE.intersection(words)) or len(_body(words)) < 3
    )


def _may_answer(words: list[str]) -> bool:
    body = _body(words)
    if body[:1] == ["that"] and body[1:2] in (["might"], ["could"], ["would"]):
        return False
    return not _has_subject(body) or bool(_PRONOUNS.intersection(words))


def _has_subject(body: list[str]) -> bool:
    if not body:
        return False
    first = body[0]
    if first in SUBJECT_OPENINGS or first in QUESTION_WORDS or (first.endswith("ing") and len(first) > 5):
        return True
    return len(body) > 2 and (body[1] in _FINITE or first.endswith("'s"))


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
    if not any(people):
        return True
    # "He lives in Rome. She lives in Oslo.": each names its subject by a pronoun, none can be the other's name.
    return all(words[0] in SUBJECTS for words in parts) or (
        len(parts) == 2 and all(people) and not any(re.search(r"(?<=[\w,] )[A-Z][a-z]", s) for s in sentences)
    )


def _unbound(words: list[str]) -> set[str]:
    """Return the pronouns for persons in a sentence; not "they" behind a plural, which it means then."""
    for place, word in enumerate(words):
        if word.endswith("s") and len(word) > 4 and word not in PERSONS:
            return set(words[:place]) & PERSONS | (set(words) & PERSONS - {"they", "them", "their", "theirs"})
    return set(words) & PERSONS


def _alike(a: list[str], b: list[str]) -> bool:
    return a[:2] == b[:2] or len(set(a) & set(b)) * 2 >= len(set(a) | set(b))


def _asks(words: list[str]) -> bool:
    """Tell whether the words are in the order of a question, so that no mark is needed to see it."""
    body = _body(words)
    if not body:
        return False
    if body[0] == "so" and len(body) > 1:
        body = body[1:]
    first, rest = body[0], body[1:]
    if first in AUXILIARIES | {"could", "would", "should"}:
        # "Do it", "have it" are orders.
        return bool(_ASKED.intersection(rest[:1])) and not (first in {"do", "have"} and rest[0] == "it")
    if first.split("'")[0] in QUESTION_WORDS:
        inverted = any(
            a in AUXILIARIES | {"would", "could", "should", "did"} and b in _ASKED for a, b in itertools.pairwise(body)
        )
        return (
            inverted
            or "'" in first
            or rest[:1] == ["about"]
            or (first in {"what", "which"} and bool({"made", "inspired", "has", "is", "was"}.intersection(rest[:2])))
        )
    return first in {"any", "anything", "got", "mind"} or (first == "you" and rest[:1] == ["got"])


def _evident(text: str, mark: re.Match[str]) -> bool:
    """Tell whether the words around a mark part there without it."""
    left, right = mark[1].lower(), mark[2].lower()
    words = _words(re.split(r"[.!?…]", text[: mark.end(1)])[-1])
    if left in DENIALS or left.endswith("n't") or right in _RISKY or right[0].isdigit():
        return False
    if right == "that" and not (left in INTERJECTIONS or words[0] in INTERJECTIONS or words[-2:] == ["to", "me"]):
        return False
    rest = text[mark.start(2) :]
    sign = text[mark.end(1)]
    if sign == ",":
        address = mark[2][0].isupper() and rest[len(mark[2]) : len(mark[2]) + 1] in {".", "!", "?"}
        return _evident_comma(words, left, right, _words(rest)[1:2], address)
    if len(words) == 1 and sign != " ":
        return left in INTERJECTIONS
    return _evident_end(words, left, right, _words(re.split(r"[.!…]", rest)[0]))


def _evident_end(words: list[str], left: str, right: str, following: list[str]) -> bool:
    """Tell whether one hears a sentence end without its mark, from its words and those of the following one."""
    second = following[1:2]
    asks = _asks(following)
    if " ".join(words) in PHRASES or right in {"but", "so"}:
        return True
    # "It's good to know. He left." is not "It's good to know he left", nor "I told you. Bo left." "I told you Bo left".
    speaks = left in SPEECH and right not in {"keep", "always", "thanks", "can't"} and "what" not in words
    if speaks and left == "hear":
        speaks = right not in {"i", "i'm", "i've"}
    speaks = speaks or (bool(SPEECH.intersection(words[-2:-1])) and left in {"you", "me", "him", "her", "us", "them"})
    if right in SUBJECTS | _CLAUSES:
        return not speaks
    if right in QUESTION_WORDS:
        return asks
    if right in _CONTINUES or (right.endswith("ed") and left not in OPINIONS):
        return False
    done = bool(words[-2:-1]) and words[-2].endswith(("'ve", "have", "has", "had"))
    if left in _CARRIES and not done and not asks:
        return False
    # An opinion is no subject: "That's awesome. Gonna try it."
    if (right == "can't" and second == ["wait"]) or (right == "gonna" and left in OPINIONS):
        return True
    # "We can win. Big data is the key" could be "We can win big. Data is the key".
    keeps = right == "keep" and second[:1] != [] and second[0].endswith("ing")
    if not (asks or keeps or right in _FIRST or right.endswith("ing") or _SECOND.intersection(second)):
        return len(words) <= 3 and words[0] in INTERJECTIONS
    return not speaks and left not in AUXILIARIES and right not in CONNECTIVES - {"and", "also", "plus"}


def _evident_comma(words: list[str], left: str, right: str, second: list[str], address: bool) -> bool:
    """Tell whether one hears a comma; with `address` there is one word behind it that may name who is spoken to."""
    if right in {"but", "so", "both"} or [right, *second] in (["keep", "up"], ["me", "included"]):
        return True
    if words[0] in _OPENERS and len(words) <= 3:
        return True
    if " ".join(words) in PHRASES:
        return address or right in _CLAUSES
    if words[0] == "can't" and not DENIALS.intersection(words):
        return address
    if DENIALS.intersection(words) or any(word.endswith("n't") for word in words):
        return False
    if right in _CLAUSES or (right == "even" and second in (["if"], ["when"], ["though"])):
        return left not in SPEECH
    if right == "and":
        return second in ([word] for word in SUBJECTS | _CLAUSES | {"hey", "that"}) and left not in SPEECH
    # "That's great, Mel!": who is spoken to; not "Let's eat, grandma", "I'll call you, Bo", "Ask my brother, Bo".
    said = left in OPINIONS | INTERJECTIONS | {"lot"} or (
        bool(_SMALL.intersection(words[-2:-1])) and left in {"you", "that", "it"}
    )
    return address and (said or words[0] in {"sounds", "looks"})

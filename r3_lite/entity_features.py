"""Describes each word of a text by 66 yes/no features, one bit each of a Python int.

The rule tagger reads the bits by name; the head gets them as a matrix. The last ten bits are the rule
tagger's own answer, which `with_rule_tags` adds. The order of the bits is the head's input: who changes it
trains anew.
"""

import re
from collections.abc import Iterable
from functools import lru_cache

from r3_lite.entity_words import Phrases, Span, Word, lexicon, phrase_length

ENTITY_TYPES = ("people", "organizations", "technologies", "projects", "places")

# fmt: off
(
    # shape of the word
    LOWER, TITLE, UPPER, MIXED, DIGIT, NUMBER, JOINED, DOTTED, SIGN, LETTER, SHORT, LONG,
    NON_ASCII, TECH_ENDING, KEBAB,
    # where it stands
    SENTENCE_START, TEXT_START, ALL_LOWER, AFTER_MARK, BEFORE_POSSESSIVE, AFTER_AT, AFTER_SLASH,
    # how often the training text has it in lower case
    STOP_WORD, NEVER_LOWER, RARELY_LOWER, SOMETIMES_LOWER, OFTEN_LOWER, MOSTLY_CAPITAL,
    # cue words
    PROJECT_NOUN, TEAM_NOUN, ROLE, WORK_VERB, USE_VERB, LEAD_VERB, DEPEND_VERB, SAY_VERB, PREPOSITION,
    PERSON_TITLE, DATE_WORD, COMPANY_CUE,
    # word lists
    SAFE_TECH, CASED_TECH, TECH_INSIDE, AMBIGUOUS, LOWER_AMBIGUOUS, COMPANY_PRODUCT,
    ORGANIZATION, ORGANIZATION_INSIDE, DEPARTMENT, DEPARTMENT_INSIDE, PLACE, PLACE_INSIDE,
    FIRST_NAME, LAST_NAME, NAME_WORD, COMPANY_SUFFIX,
) = (1 << i for i in range(56))
# fmt: on
RULE_TAGS = 56  # begin and inside of each of the five types
COUNT = RULE_TAGS + 2 * len(ENTITY_TYPES)
# What comes from word lists. Training hides it in some sentences, so that the head learns to do without.
LIST_FEATURES = tuple(range(SAFE_TECH.bit_length() - 1, COUNT))

_CUE_BITS = (
    ("stop words", STOP_WORD),
    ("project nouns", PROJECT_NOUN),
    ("team nouns", TEAM_NOUN),
    ("roles", ROLE),
    ("work verbs", WORK_VERB),
    ("use verbs", USE_VERB),
    ("lead verbs", LEAD_VERB),
    ("depend verbs", DEPEND_VERB),
    ("say verbs", SAY_VERB),
    ("prepositions", PREPOSITION),
    ("titles", PERSON_TITLE),
    ("date words", DATE_WORD),
    ("company words", COMPANY_CUE),
    ("words that are names", NAME_WORD),
    ("company suffixes", COMPANY_SUFFIX),
)
_TECH_ENDING = re.compile(r"..*(?:js|db|sql|ql|kit|ml|ui|mq|ops|py|lang)")
_SEPARATOR = re.compile(r"[-_/]")
_MARKS = frozenset(':-*"(•|>')
_POSSESSIVES = frozenset(("'s", "’s"))


def word_features(text: str, words: list[Word]) -> list[int]:
    """One int of feature bits per word of `text`; the rule tags are still 0."""
    lists = lexicon()
    written = [word.text for word in words]
    lower = [word.lower() for word in written]
    all_lower = not any(c.isupper() for c in text)
    bits = [_shape(word) | _lower_bits(word.lower()) for word in written]
    sentence_start = True
    for i, word in enumerate(words):
        b = bits[i]
        if all_lower:
            b |= ALL_LOWER
        if sentence_start:
            b |= SENTENCE_START
        if i == 0:
            b |= TEXT_START
        else:
            before = written[i - 1]
            if before in _MARKS:
                b |= AFTER_MARK
            elif before == "@":
                b |= AFTER_AT
            elif before == "/":
                b |= AFTER_SLASH
        last = i + 1 == len(words)
        if not last and lower[i + 1] in _POSSESSIVES:
            b |= BEFORE_POSSESSIVE
        if word.text in lists.ambiguous:
            b |= AMBIGUOUS
        if b & LOWER and lower[i] in lists.lower_ambiguous:
            b |= LOWER_AMBIGUOUS
        if word.text in lists.company_products or (all_lower and word.text.title() in lists.company_products):
            b |= COMPANY_PRODUCT
        # A word that is common in lower case is a first name only when it has its capital.
        if b & FIRST_NAME and not (word.text[0].isupper() or all_lower or lists.lower_count(lower[i]) < 3):
            b &= ~FIRST_NAME
        bits[i] = b
        sentence_start = (
            word.text in ".!?;"
            or (not last and "\n" in text[word.end : words[i + 1].start])
            or (word.text in "-*•" and sentence_start)
        )
    for phrases, begin, inside, exact in (
        (lists.technologies_safe, SAFE_TECH, TECH_INSIDE, False),
        (lists.technologies_cased, CASED_TECH, TECH_INSIDE, True),
        (lists.organizations, ORGANIZATION, ORGANIZATION_INSIDE, True),
        (lists.departments, DEPARTMENT, DEPARTMENT_INSIDE, True),
        (lists.places, PLACE, PLACE_INSIDE, True),
    ):
        _mark(
            bits,
            phrases,
            written,
            lower,
            begin,
            inside,
            exact_case=exact and not all_lower,
            listed_case=exact,
        )
    return bits


def with_rule_tags(bits: list[int], words: list[Word], spans: Iterable[Span]) -> list[int]:
    """The same bits with the rule tagger's `spans` written into the last ten."""
    tagged = list(bits)
    for span in spans:
        if span.type not in ENTITY_TYPES:
            continue
        bit = 1 << (RULE_TAGS + 2 * ENTITY_TYPES.index(span.type))
        for i, word in enumerate(words):
            if word.start >= span.start and word.end <= span.end:
                tagged[i] |= bit if word.start == span.start else bit << 1
    return tagged


def _mark(
    bits: list[int],
    phrases: Phrases,
    written: list[str],
    lower: list[str],
    begin: int,
    inside: int,
    *,
    exact_case: bool,
    listed_case: bool,
) -> None:
    i = 0
    while i < len(bits):
        n = phrase_length(phrases, written, lower, i, exact_case=exact_case)
        # In text without capitals a common word says nothing.
        common = n == 1 and listed_case and not exact_case and lexicon().lower_count(lower[i]) > 8
        if n == 0 or common:
            i += 1
            continue
        bits[i] |= begin
        for k in range(i + 1, i + n):
            bits[k] |= inside
        i += n


@lru_cache(maxsize=4096)
def _shape(word: str) -> int:
    alphabetic = any(c.isalpha() for c in word)
    lower = word.lower()
    joined = len(word) > 1 and any(c in "-_/" for c in word)
    return (
        LOWER * word.islower()
        | TITLE * (word[0].isupper() and (len(word) == 1 or word[1:].islower()))
        | UPPER * (len(word) > 1 and word.isupper())
        | MIXED * (any(c.isupper() for c in word[1:]) and not word.isupper())
        | DIGIT * any(c.isdigit() for c in word)
        | NUMBER * word.isdigit()
        | JOINED * joined
        | DOTTED * (len(word) > 1 and "." in word)
        | SIGN * (not any(c.isalnum() for c in word))
        | LETTER * (len(word) == 1 and alphabetic)
        | SHORT * (len(word) <= 3)
        | LONG * (len(word) >= 8)
        | NON_ASCII * any(ord(c) > 127 and c.isalpha() for c in word)
        | TECH_ENDING * (len(word) > 3 and _TECH_ENDING.fullmatch(lower) is not None)
        | KEBAB * (joined and word.islower() and _SEPARATOR.split(word)[-1] in lexicon().cues["repository suffixes"])
    )


@lru_cache(maxsize=8192)
def _lower_bits(lower: str) -> int:
    lists = lexicon()
    low, capital = lists.counts.get(lower, (0, 0))
    bits = (
        NEVER_LOWER * (low == 0)
        | RARELY_LOWER * (0 < low <= 5)
        | SOMETIMES_LOWER * (5 < low <= 50)
        | OFTEN_LOWER * (low > 50)
        | MOSTLY_CAPITAL * (capital >= 3 and capital > 4 * low)
        | FIRST_NAME * (lower in lists.first_names)
        | LAST_NAME * (lower in lists.last_names)
    )
    for cue, bit in _CUE_BITS:
        if lower in lists.cues[cue]:
            bits |= bit
    return bits

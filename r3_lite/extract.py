"""Text to entities, typed relations, dates and keywords: pure, offline, about a millisecond.

Two systems give the same `Extraction`. Without the encoder's output the word lists and cue words decide
("rules"); with it a small learned head does, which also knows names that stand in no list ("rules+head").
An optional third, `extract_gliner`, knows other languages. Nothing here loads a model, opens a connection
or keeps state; numpy is imported at the first text that comes with encoder output.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from r3_lite.entity_features import (
    ALL_LOWER,
    DATE_WORD,
    KEBAB,
    LOWER_AMBIGUOUS,
    SAFE_TECH,
    STOP_WORD,
    TECH_INSIDE,
    with_rule_tags,
    word_features,
)
from r3_lite.entity_rules import rule_spans
from r3_lite.entity_words import Span, Word, lexicon, split_words

if TYPE_CHECKING:
    from r3_lite.entity_head import Pieces

Method = Literal["rules", "rules+head", "gliner"]
METHODS: tuple[Method, ...] = ("rules", "rules+head", "gliner")
"""From the one that is always there to the one that the user asked for."""

# Part of what is recorded with each memory: raise it when other entities or relations are found, so that the
# memories are read anew.
VERSION = 1
MIN_CONFIDENCE = 0.4  # below it a span of the head is wrong more often than right
SURE_IN_LOWER_CASE = 0.7  # a wordy technology in lower case ("go", "react") inside text that has capitals
MAX_KEYWORDS = 10

_EDGES = " \t\n\"'`´‘’“”„«»()[]{}<>.,;:!?¿¡…*_-–—/\\|@~"
_SEPARATORS = re.compile(r"[\s_\-‐‑‒–—]+")
_ACCENTS = re.compile(r"(?<=[a-z])[\u0300-\u036f]+")


@dataclass(frozen=True, slots=True)
class Entity:
    """A name in the text: type, as written, character offsets `start` <= i < `end`, confidence 0-1."""

    type: str
    name: str
    start: int
    end: int
    confidence: float


@dataclass(frozen=True, slots=True)
class Relation:
    """`source --[type]--> target`; the confidence is that of the less sure end."""

    source: Entity
    type: str
    target: Entity
    confidence: float

    def __str__(self) -> str:
        return f"{self.source.name} --[{self.type}]--> {self.target.name}"


@dataclass(frozen=True, slots=True)
class Extraction:
    """What one text says: entities in reading order, relations, keywords, and how they were found."""

    entities: tuple[Entity, ...]
    relations: tuple[Relation, ...]
    keywords: tuple[str, ...]
    method: Method


def extract(text: str, pieces: "Pieces | None" = None) -> Extraction:
    """People, organizations, technologies, projects, places, dates, relations and keywords of `text`.

    `pieces` is the fourth layer's output of the bundled encoder for this very text, with character offsets;
    None means that the encoder is off or not ready, and the rules alone answer (`method` says which).
    Entities of the head have confidence 0.4-1; use those above 0.5 for a graph. Safe to call from several
    threads.
    """
    words = split_words(text)
    bits = word_features(text, words)
    spans = rule_spans(text, words, bits)
    method: Method = "rules"
    if pieces is not None and words:
        spans = _head_spans(words, bits, spans, pieces)
        method = "rules+head"
    return build_extraction(text, sorted(spans), method, words=words, bits=bits)


def build_extraction(
    text: str,
    spans: list[Span],
    method: Method,
    *,
    words: list[Word] | None = None,
    bits: list[int] | None = None,
    relations: Sequence[tuple[int, str, int, float]] | None = None,
) -> Extraction:
    """Adds relations and keywords to `spans` that a tagger found, in reading order and without overlaps.

    `relations` are the tagger's own, as (index of source, type, index of target, confidence); None means
    that the typed patterns find them. `words` and `bits` save splitting again.
    """
    entities = tuple(Entity(s.type, text[s.start : s.end], s.start, s.end, s.confidence) for s in spans)
    if relations is None:
        from r3_lite.relations import (
            find_relations,
        )  # compiles its patterns, which start-up need not wait for

        relations = [(i, kind, j, 1.0) for i, kind, j in find_relations(text, spans)]
    found = tuple(
        Relation(a, kind, b, min(a.confidence, b.confidence, sure))
        for a, kind, b, sure in ((entities[i], kind, entities[j], sure) for i, kind, j, sure in relations)
    )
    words = split_words(text) if words is None else words
    bits = word_features(text, words) if bits is None else bits
    return Extraction(entities, found, keywords(words, bits), method)


def join(parts: Sequence[tuple[int, str, Extraction]]) -> Extraction:
    """One extraction of a text from those of its parts (start, text, extraction), which overlap a little.

    Where two overlap each answers for its half, so that a name is counted once and never cut. The method is
    the weakest of the parts'.
    """
    if len(parts) == 1:
        return parts[0][2]
    ends = [(start + len(text) + after) // 2 for (start, text, _), (after, _, _) in pairwise(parts)]
    moved: dict[tuple[int, int], Entity] = {}
    relations: dict[str, Relation] = {}
    seen: Counter[str] = Counter()
    for number, (start, _, found) in enumerate(parts):
        least = ends[number - 1] if number else 0
        most = ends[number] if number < len(ends) else float("inf")
        for entity in found.entities:
            if least <= start + entity.start < most:
                moved[number, entity.start] = replace(entity, start=start + entity.start, end=start + entity.end)
        for relation in found.relations:
            source, target = moved.get((number, relation.source.start)), moved.get((number, relation.target.start))
            if source and target:
                relations.setdefault(str(relation), replace(relation, source=source, target=target))
        seen.update(found.keywords)
    best = tuple(word for word, _ in seen.most_common(MAX_KEYWORDS))
    method = min((found.method for _, _, found in parts), key=METHODS.index)
    return Extraction(tuple(moved.values()), tuple(relations.values()), best, method)


def keywords(words: list[Word], bits: list[int]) -> tuple[str, ...]:
    """At most ten content words in lower case: the frequent in this text and rare in others first."""
    counts = lexicon().counts
    seen: dict[str, int] = {}
    for word, b in zip(words, bits, strict=True):
        lower = word.text.lower()
        content = not b & (STOP_WORD | DATE_WORD) and any(c.isalpha() for c in lower)
        if content and 3 <= len(lower) <= 40 and "://" not in lower and lower != "user":
            seen[lower] = seen.get(lower, 0) + 1
    ranked = sorted(seen, key=lambda word: -seen[word] / (3 + sum(counts.get(word, (0, 0)))) ** 0.5)
    return tuple(ranked[:MAX_KEYWORDS])


def entity_key(name: str) -> str:
    """The form under which the spellings of a name meet: `HERMES_agent` and `Hermes Agent` are one.

    Compatibility forms (NFKC) and case are folded, with ß as ss; accents on Latin letters are dropped;
    white space, hyphens and underscores become one space; punctuation around the name goes, signs that
    belong to it (C++, C#) stay. Only equal keys are the same entity: nothing is matched by likeness.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    plain = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFD", folded)))
    return _SEPARATORS.sub(" ", plain.strip(_EDGES)) or folded.strip()


def _head_spans(words: list[Word], bits: list[int], rules: list[Span], pieces: "Pieces") -> list[Span]:
    from r3_lite.entity_head import load_head, tag, word_vectors

    found = tag(words, with_rule_tags(bits, words, rules), word_vectors(words, pieces), load_head())
    spans = [span for span in found if span.confidence >= MIN_CONFIDENCE and _plausible(span, words, bits)]
    dates = (span for span in rules if span.type == "dates")  # the head does not know dates
    return spans + [date for date in dates if all(date.end <= s.start or date.start >= s.end for s in spans)]


def _plausible(span: Span, words: list[Word], bits: list[int]) -> bool:
    """In text with capitals a name in lower case must be a listed technology or look like a repository."""
    inside = [(word, b) for word, b in zip(words, bits, strict=True) if span.start <= word.start < span.end]
    if bits[0] & ALL_LOWER or not all(word.text.islower() for word, _ in inside):
        return True
    if any(b & (SAFE_TECH | TECH_INSIDE | KEBAB) for _, b in inside):
        return True
    return span.confidence >= SURE_IN_LOWER_CASE and any(b & LOWER_AMBIGUOUS for _, b in inside)

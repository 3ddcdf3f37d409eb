"""Typed relations between found entities, by patterns over the sentence.

Entities are replaced by typed marks (`<P3> manages <J4>, which depends on <T5>`). Each verb family says
which types may stand left and right of it; these types are what keeps the patterns precise. A verb with its
objects is found first, then its subject is looked for to the left: beside it, before a relative clause or
apposition, or, where a coordination (`, and uses`) stands to the left, the subject of the clause before.
Questions, conditions, negations, wishes, plans and former states give no relation.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from r3_lite.entity_words import Span
from r3_lite.relation_grammar import (
    ABBREVIATION,
    ALSO_FOR,
    BELONGING,
    BLOCK,
    CONDITION,
    COORDINATION,
    DESCRIBES,
    HEAD,
    LEADS_IT,
    LEFT,
    MARK,
    NO_STATEMENT,
    NOMINAL,
    OVER,
    PARTICIPLE,
    POSSESSIVE,
    PREFILTER,
    RELATIVE,
    SENTENCE,
    list_of,
    one,
)
from r3_lite.relation_patterns import CONSTRUCTIONS, FAMILIES, NOUNS_OF, TOGETHER, TOGETHER_TYPES, Family

Found = tuple[int, str, int]  # index of the source span, type, index of the target span

_LETTERS = {
    "people": "P",
    "organizations": "O",
    "technologies": "T",
    "projects": "J",
    "places": "L",
    "dates": "D",
}
# Longer stretches without a full stop are cut here: patterns are for sentences, and time stays linear.
_LONGEST = 1_000
_NEAR = 200  # how far left of its verb a subject may stand, in characters of the marked text


def find_relations(text: str, spans: Sequence[Span]) -> list[Found]:
    """Relations between `spans` (sorted, without overlaps) of `text`, in reading order, each once.

    Two mentions of one name are not related to each other; the same pair and type comes once.
    """
    if len(spans) < 2:
        return []
    names = [text[span.start : span.end] for span in spans]
    reader = _Reader(spans)
    found: list[Found] = []
    seen: set[tuple[str, str, str]] = set()
    for sentence in _sentences(_marked(text, spans)):
        for source, kind, target in reader.read(sentence):
            key = (names[source], kind, names[target])
            if names[source] != names[target] and key not in seen:
                seen.add(key)
                found.append((source, kind, target))
    # Who leads, owns or belongs to a thing is not said to work for it as well.
    closer = {(names[a], names[b]) for a, kind, b in found if kind in ("PART_OF", "LEADS", "MANAGES", "OWNS")}
    return [(a, kind, b) for a, kind, b in found if not (kind == "WORKS_FOR" and (names[a], names[b]) in closer)]


def _marked(text: str, spans: Sequence[Span]) -> str:
    parts = []
    done = 0
    for i, span in enumerate(spans):
        # "<" of the text itself must not look like a mark.
        parts += [text[done : span.start].replace("<", "("), f"<{_LETTERS[span.type]}{i}>"]
        done = span.end
    parts.append(text[done:].replace("<", "("))
    return "".join(parts).replace("’", "'")


def _sentences(marked: str) -> Iterator[str]:
    start = 0
    for match in SENTENCE.finditer(marked):
        if ABBREVIATION.search(marked, max(start, match.start() - 8), match.start()):
            continue
        yield from _pieces(marked[start : match.start()])
        start = match.end()
    yield from _pieces(marked[start:])


def _pieces(sentence: str) -> Iterator[str]:
    while len(sentence) > _LONGEST:
        cut = sentence.rfind(" ", 0, _LONGEST)
        cut = cut if cut > 0 else _LONGEST
        yield sentence[:cut]
        sentence = sentence[cut:]
    yield sentence


def _ids(marks: str) -> list[int]:
    return [int(number) for _, number in MARK.findall(marks)]


@dataclass(slots=True)
class _Clause:
    """A verb with the ends found so far."""

    family: Family
    verb: str
    start: int  # of the verb
    objects_start: int
    end: int
    objects: list[int]
    subjects: list[int] = field(default_factory=list)


class _Reader:
    """Owns what pronouns may refer to while the sentences of one text are read in order."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self.letters = [_LETTERS[span.type] for span in spans]
        self.person: str | None = None
        self.thing: str | None = None
        self.several: str | None = None

    def read(self, sentence: str) -> list[Found]:
        """Relations of one sentence; remembers whom and what it speaks of."""
        sentence = self._with_names_for_pronouns(sentence)
        found: list[Found] = []
        if PREFILTER.search(sentence) and not sentence.rstrip().endswith("?") and not NO_STATEMENT.match(sentence):
            for clause in self._clauses(sentence):
                for subject in clause.subjects:
                    for target in clause.objects:
                        ends = (target, subject) if clause.family.inverse else (subject, target)
                        found.append((ends[0], clause.family.type, ends[1]))
            found += _constructions(sentence)
        self._remember(sentence)
        return found

    def _with_names_for_pronouns(self, sentence: str) -> str:
        if self.person:
            sentence = re.sub(r"^(?:[-*•] )?(?:He|She|he|she)\b", self.person, sentence)
            sentence = re.sub(r"^(?:His|Her|his|her)\b", f"{self.person}'s", sentence)
        if self.thing:
            sentence = re.sub(r"^(?:It|it)\b", self.thing, sentence)
        if self.several:
            sentence = re.sub(r"^(?:Both|They|both|they)\b", self.several, sentence)
        people = list(re.finditer(r"<P\d+>", sentence))
        if people:
            # "Ana likes Go, but she uses Rust": the last person before.
            def named(match: re.Match[str]) -> str:
                before = [person for person in people if person.end() <= match.start()]
                return match[1] + (before[-1].group() if before else match[2])

            sentence = re.sub(r"(, | and | but |; )(he|she)\b", named, sentence)
        # "Kickoff of Atlas: Ana leads it."
        here = re.match(r"[^<]*(?:<[DL]\d+>[^<]*)*(<J\d+>)", sentence)
        thing = here[1] if here else self.thing
        if thing:
            start = here.end() if here else 0
            sentence = sentence[:start] + LEADS_IT.sub(rf"\1 {thing}", sentence[start:])
        return sentence

    def _remember(self, sentence: str) -> None:
        if people := re.search(r"<P\d+>", sentence):
            self.person = people.group()
        if subject := re.match(rf"(?:[Tt]he )?({one('JTO')})", sentence) or re.search(r"()(<J\d+>)", sentence):
            self.thing = subject[subject.lastindex or 1]
        pair = re.match(rf"({list_of('P')})", sentence) or re.search(
            rf"(?:depends on|requires|uses|:) (?:the )?({list_of('JT')})", sentence
        )
        self.several = pair[1] if pair and len(_ids(pair[1])) > 1 else None

    def _clauses(self, sentence: str) -> list[_Clause]:
        clauses = [
            _Clause(family, m["verb"], m.start("verb"), m.start("objects"), m.end(), _ids(m["objects"]))
            for family in FAMILIES
            for m in family.pattern.finditer(sentence)
            if not _blocked_after(family, sentence[m.end() : m.end() + 25]) and not BLOCK.search(m["verb"] + m["det"])
        ]
        for clause in clauses:
            while clause.family.objects == "T" and (also := ALSO_FOR.match(sentence, clause.end)):
                clause.objects += _ids(also["list"])
                clause.end = also.end()
        clauses.sort(key=lambda clause: (clause.start, clause.end))
        head = HEAD.match(sentence)
        speaker: list[int] = []
        speaker_end = 0
        if head:
            speaker, speaker_end = _ids(head["list"]), head.end()
        kept: list[_Clause] = []
        for clause in clauses:
            subjects, end = self._subjects(clause, sentence, speaker, speaker_end, kept)
            if subjects:
                speaker, speaker_end = subjects, end
            clause.subjects = [i for i in subjects if self.letters[i] in clause.family.subjects]
            if clause.subjects:
                kept.append(clause)
        return kept

    def _subjects(
        self,
        clause: _Clause,
        sentence: str,
        speaker: list[int],
        speaker_end: int,
        before: list[_Clause],
    ) -> tuple[list[int], int]:
        """Subjects of the clause and where they end; none where it is blocked or stands alone."""
        offset = max(0, clause.start - _NEAR)
        left = sentence[offset : clause.start]
        match = LEFT.search(left)
        if match:
            nearby = left[max(0, match.start() - 40) : match.start()]
            if BLOCK.search(match["gap"]) or CONDITION.search(nearby):
                return [], 0
            ids = _ids(match["list"])
            joined = not match["comma"] and not match["relative"]
            if joined and self.letters[ids[0]] == "P" and BELONGING.search(left[: match.start()]):
                return [], 0
            end = offset + match.end("list")
            beside = PARTICIPLE.match(clause.verb) or NOMINAL.fullmatch(clause.verb)
            finite = not beside or match["gap"].strip() != ""
            apposed = match["comma"] and not match["relative"] and finite
            if apposed and speaker and speaker_end <= offset + match.start("list"):
                # "Ana, who leads Atlas, uses Go", "Atlas uses Go, depends on Nova": look further left.
                if BLOCK.search(sentence[speaker_end : clause.start]):
                    return [], 0
                return speaker, speaker_end
            for other in before:
                # "Atlas uses Go and Nova uses Rust": the second subject is no object of the first verb.
                if other.objects_start <= offset + match.start("list") < other.end and len(ids) > 1:
                    other.objects = [i for i in other.objects if i != ids[-1]]
                    ids = ids[-1:]
            return ids, end
        match = COORDINATION.search(left)
        if match and match.group().strip() == ",":
            # "Ana uses Go and Bo, who joined in May, uses Rust"
            relatives = list(RELATIVE.finditer(left))
            if relatives and offset + relatives[-1].start() >= speaker_end:
                named = _ids(relatives[-1]["list"])
                alike = len({self.letters[i] for i in named}) == 1
                speaker, speaker_end = named if alike else named[-1:], offset + relatives[-1].end()
        if match and speaker and speaker_end <= clause.start:
            between = sentence[speaker_end : clause.start]
            contrast = " but" in match.group() and not BLOCK.search(match["gap"])
            if contrast or not BLOCK.search(between):
                return speaker, speaker_end
        return [], 0


def _blocked_after(family: Family, after: str) -> bool:
    if OVER.match(after) or (family.objects == "T" and DESCRIBES.match(after)):
        return True
    # "knows Ana's brother", "manages Ana's calendar"
    return family.type in ("KNOWS", "REPORTS_TO", "MANAGES") and after.startswith(POSSESSIVE)


def _constructions(sentence: str) -> Iterator[Found]:
    """Relations that no verb between two lists says."""
    for pattern, kind, inverse in CONSTRUCTIONS:
        for match in pattern.finditer(sentence):
            before = sentence[max(0, match.start() - 60) : match.start()].rpartition(". ")[2]
            if BLOCK.search(match.group()) or BLOCK.search(before[-40:]):
                continue
            relation = kind or NOUNS_OF[match["noun"]]
            for a in _ids(match["a"]):
                for b in _ids(match["b"]):
                    yield (b, relation, a) if inverse else (a, relation, b)
    for match in TOGETHER.finditer(sentence):
        if not BLOCK.search(match.group()):
            for a in _ids(match["a"]):
                for b in _ids(match["b"]):
                    yield a, TOGETHER_TYPES[match["verb"][0]], b

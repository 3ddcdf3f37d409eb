"""The rule tagger: entities from word lists and cue words alone.

It is the whole system where the encoder is off, and a hint to the head where it is on. Each step looks for
one type and takes words that no earlier step took.
"""

import re
from collections.abc import Iterable

from r3_lite import entity_features as F
from r3_lite.dates import find_dates
from r3_lite.entity_words import Phrases, Span, Word, lexicon, phrase_length, word_set

CONFIDENCE = 0.8  # of a span found by rules; near the measured share of right ones
DATE_CONFIDENCE = 0.9

_COMPANY_VERBS = word_set(
    "hired acquired signed released announced open-sourced maintains makes rejected uses raised wants "
    "bought sued "
    "launched builds sells cancelled rebranded runs owns"
)
_PERSON_VERBS = word_set("knows prefers reports handles wrote maintains runs suggested founded speaks hopes")
_SURELY_PERSON_VERBS = word_set("said reports lives joined suggested prefers thinks told knows manages approved")
_WEAK_VERBS = frozenset(("is", "was", "has"))
_ORGANIZATION_BEFORE = word_set("for joined join left hired acquired of from by with")
_ORGANIZATION_TWO_BEFORE = word_set(
    "bought acquired founded made created developed contact call meeting works moved back"
)
_DEPARTMENT_BEFORE = word_set("from in to ask asked with")
_TECH_BEFORE = word_set(
    "use uses using in with over to from on adopt prefers than and or via through behind an a of remove drop "
    "learning run learn not favorite is ,"
)
_TECH_TWO_BEFORE = word_set("than instead not app prefers is language made")
_TECH_DIRECTLY_BEFORE = word_set("use uses using prefers adopt run")
_TECH_AFTER = word_set(
    "app code config script scripts library version charts components tooling workspace models client server "
    "database developer development plugin extension api cluster upgrade hooks channel template files jobs"
)
_NOT_A_PROJECT_NOUN = word_set("product package library tool program release")
_PROJECT_VERBS = word_set("depends integrates requires connects relies uses")
_PROJECT_PARTICIPLES = word_set("written built part owned managed led maintained")
_NO_PROJECT = word_set("user team we decision note")
# Companies and cities whose name is a word or another thing as well.
_WORDY_COMPANIES = word_set(
    "Apple Target Meta Square Block Snap Wise Uber Oracle Oxford Cambridge Ford Stanford Signal"
)
_WORDY_PLACES = word_set("Phoenix Sofia Florence Austin Houston Dallas Paris Georgia Jordan Chelsea Victoria Sydney")
_PARTICLES = word_set("van von de der la bin al")
_LINKS = frozenset(("and", "or", ",", "/"))
_VERSION = re.compile(r"v?\d+(\.\d+)*")
_DOTTED_TECH = re.compile(r"[A-Za-z]+\.(?:js|io)")


def rule_spans(text: str, words: list[Word], bits: list[int]) -> list[Span]:
    """Entities and dates of `text`, in reading order, without overlaps."""
    tagger = _Tagger(text, words, bits)
    tagger.dates()
    tagger.named_projects()
    tagger.departments_and_suffixed()
    tagger.organizations()
    tagger.technologies()
    tagger.places()
    tagger.people()
    tagger.projects_by_relation()
    return sorted(tagger.spans)


class _Tagger:
    """Owns the list of words that are taken while the steps run over one text."""

    def __init__(self, text: str, words: list[Word], bits: list[int]) -> None:
        self.text = text
        self.words = words
        self.bits = bits
        self.written = [word.text for word in words]
        self.lower = [word.lower() for word in self.written]
        self.taken: list[str | None] = [None] * len(words)
        self.all_lower = bool(bits and bits[0] & F.ALL_LOWER)
        self.spans: list[Span] = []

    def dates(self) -> None:
        for start, end in find_dates(self.text):
            self.spans.append(Span(start, end, "dates", DATE_CONFIDENCE))
            for i, word in enumerate(self.words):
                if word.start >= start and word.end <= end:
                    self.taken[i] = "dates"

    def named_projects(self) -> None:
        """`Project Apollo`, `the Dashboard project`, `auth-service`."""
        for i in self.free():
            if self.lower[i] == "project" and (self.capital(i + 1) or self.has(i + 1, F.KEBAB)):
                if not self.has(i + 1, F.STOP_WORD):
                    self.take(i if self.capital(i) else i + 1, i + 2, "projects")
            elif self.has(i, F.KEBAB):
                self.take(i, i + 1, "projects")
            elif self.name_like(i) and self.has(i + 1, F.PROJECT_NOUN):
                project = self.word(i + 1) == "project"
                technology = self.has(i, F.SAFE_TECH | F.CASED_TECH)
                if (technology and not (project and self.has(i, F.AMBIGUOUS))) or self.word(
                    i + 1
                ) in _NOT_A_PROJECT_NOUN:
                    continue
                if project or not self.has(i, F.SENTENCE_START):
                    first = i
                    while first and self.name_like(first - 1) and not self.has(first - 1, F.SENTENCE_START):
                        first -= 1
                    self.take(first, i + 1, "projects")

    def departments_and_suffixed(self) -> None:
        """Departments in context, `Platform team`, `University of X`, `Quill Software GmbH`."""
        lists = lexicon()
        for i in self.free():
            if self.has(i, F.DEPARTMENT):
                n = self.length(lists.departments, i)
                after = self.word(i + n)
                spoken_of = self.word(i - 1) in _DEPARTMENT_BEFORE and not self.has(i, F.SENTENCE_START)
                acts = self.capital(i) and after not in _WEAK_VERBS and self.person_verb(i + n)
                if self.has(i + n, F.TEAM_NOUN) or acts or (spoken_of and not self.has(i + n, F.PROJECT_NOUN)):
                    self.take(i, i + n, "organizations")
            if self.name_like(i) and self.has(i + 1, F.TEAM_NOUN) and not self.has(i, F.SENTENCE_START):
                self.take(i, i + 1, "organizations")
            if self.written[i] == "University" and self.word(i + 1) == "of":
                self.take(i, self.last_capital(i + 2), "organizations")
            if self.has(i, F.COMPANY_SUFFIX) and self.capital(i) and self.name_like(i - 1):
                first = i
                while first and self.name_like(first - 1) and i - first < 4:
                    first -= 1
                end = i + 1
                while self.has(end, F.COMPANY_SUFFIX) and self.capital(end):
                    end += 1
                self.take(first, end, "organizations")

    def organizations(self) -> None:
        """Listed companies where the place fits, and unknown names after `at`, `works for`, `joined`."""
        lists = lexicon()
        for i in self.free():
            n = self.length(lists.organizations, i) if self.has(i, F.ORGANIZATION) else 0
            if n:
                product = self.has(i, F.COMPANY_PRODUCT) or (self.all_lower and self.lower[i] in lists.counts)
                wordy = self.written[i] in _WORDY_COMPANIES
                inside = not self.has(i, F.SENTENCE_START)
                described = self.word(i + n) in _WEAK_VERBS and self.word(i + n + 1) in (
                    "our",
                    "a",
                    "the",
                    "now",
                )
                if (
                    not (product or wordy)
                    or self.organization_context(i, n)
                    or (self.written[i] in ("Apple", "Meta", "Oracle", "Uber") and inside)
                    or (self.written[i] in ("Apple", "Target", "Meta") and described)
                ):
                    self.take(i, i + n, "organizations")
            elif self.has(i, F.COMPANY_PRODUCT):
                if self.organization_context(i, 1):
                    self.take(i, i + 1, "organizations")
            elif self.name_like(i) and not self.has(i, F.SENTENCE_START | F.FIRST_NAME):
                before = self.word(i - 1)
                works = self.has(i - 2, F.WORK_VERB) or self.has(i - 3, F.WORK_VERB) or self.word(i - 2) == "now"
                if (before == "at" and not self.has(i, F.PLACE)) or (before in ("for", "joined") and works):
                    self.take(i, self.last_capital(i + 1), "organizations")

    def technologies(self) -> None:
        """Safe names anywhere, case-exact ones as written, ambiguous ones beside a cue or a technology."""
        lists = lexicon()
        for i in self.free():
            n = self.length(lists.technologies_safe, i, exact=False) if self.has(i, F.SAFE_TECH) else 0
            if n:
                name = " ".join(self.written[i : i + n])
                employer = name in lists.company_products and self.organization_context(i, n)
                if name not in lists.ambiguous and not employer:
                    self.take(i, i + n, "technologies")
            elif self.has(i, F.CASED_TECH) and not self.has(i, F.AMBIGUOUS) and self.capital(i):
                self.take(i, i + self.length(lists.technologies_cased, i), "technologies")
        for _ in range(2):  # again, since a name found in the first round is a neighbour in the second
            for i in self.free():
                listed = self.has(i, F.AMBIGUOUS) and self.has(i, F.CASED_TECH)
                if not (listed or (self.all_lower and self.has(i, F.LOWER_AMBIGUOUS))):
                    continue
                cue = self.technology_cue(i)
                opens = i > 0 and self.has(i, F.SENTENCE_START)
                if opens and not cue and self.word(i + 1) not in ("is", "was", "and", ","):
                    continue
                neighbour = self.technology_beside(i)
                common = self.all_lower and not neighbour and lists.lower_count(self.lower[i]) > 5
                if (neighbour or cue) and not common:
                    self.take(i, i + 1, "technologies")
        for i in self.free():
            made_up = self.has(i, F.MIXED) and self.has(i, F.TECH_ENDING)
            if made_up or _DOTTED_TECH.fullmatch(self.written[i]):
                self.take(i, i + 1, "technologies")

    def places(self) -> None:
        for i in self.free():
            n = self.length(lexicon().places, i) if self.has(i, F.PLACE) else 0
            if not n:
                continue
            located = self.word(i - 1) in ("in", "from", "to", "near", "at", "the") or self.word(i - 2) == "in"
            if located or self.written[i] not in _WORDY_PLACES:
                self.take(i, i + n, "places")

    def people(self) -> None:
        for i in self.free():
            if self.has(i, F.SIGN) or not self.person_starts(i):
                continue
            end = i + 1
            if self.lower[i] in ("dr", "mr", "mrs", "ms", "prof") and self.word(end) == ".":
                end += 1
            while not self.all_lower and self.person_goes_on(end):
                end += 1
            self.take(i, end, "people")

    def projects_by_relation(self) -> None:
        """Names that the text has as projects elsewhere, and unknown ones that depend, are led, are built."""
        known = {self.text[span.start : span.end] for span in self.spans if span.type == "projects"}
        for i in self.free():
            if self.written[i] in known:
                self.take(i, i + 1, "projects")
        for i in self.free():
            if not self.name_like(i) or self.has(i, F.ORGANIZATION) or self.lower[i] in _NO_PROJECT:
                continue
            after = self.word(i + 1)
            common = lexicon().lower_count(self.lower[i]) >= 60
            led = self.word(i - 1) in ("leads", "manages", "owns") and not self.has(i, F.FIRST_NAME)
            described = after in ("is", "was") and self.word(i + 2) in _PROJECT_PARTICIPLES
            if (after in _PROJECT_VERBS and not common) or led or described:
                self.take(i, i + 1, "projects")

    # What the steps ask of a place in the text. Places outside the text are empty words without features.

    def free(self) -> Iterable[int]:
        return (i for i in range(len(self.words)) if self.taken[i] is None)

    def word(self, i: int) -> str:
        return self.lower[i] if 0 <= i < len(self.lower) else ""

    def has(self, i: int, features: int) -> bool:
        return 0 <= i < len(self.bits) and bool(self.bits[i] & features)

    def capital(self, i: int) -> bool:
        return 0 <= i < len(self.written) and self.written[i][0].isupper()

    def name_like(self, i: int) -> bool:
        return self.capital(i) and not self.has(i, F.STOP_WORD | F.SIGN)

    def last_capital(self, i: int) -> int:
        while self.name_like(i):
            i += 1
        return i

    def length(self, phrases: Phrases, i: int, *, exact: bool = True) -> int:
        return phrase_length(phrases, self.written, self.lower, i, exact_case=exact and not self.all_lower)

    def person_verb(self, i: int) -> bool:
        return self.has(i, F.SAY_VERB | F.LEAD_VERB | F.WORK_VERB) or self.word(i) in _PERSON_VERBS

    def organization_context(self, i: int, n: int) -> bool:
        before = self.word(i - 1)
        return (
            before in ("at", "joined", "join", "left", "acquired")
            or self.word(i + n) in _COMPANY_VERBS
            or (
                before in _ORGANIZATION_BEFORE
                and (
                    self.has(i - 2, F.WORK_VERB | F.ROLE)
                    or self.has(i - 3, F.WORK_VERB)
                    or self.word(i - 2) in _ORGANIZATION_TWO_BEFORE
                )
            )
        )

    def technology_cue(self, i: int) -> bool:
        before, two_before, after = self.word(i - 1), self.word(i - 2), self.word(i + 1)
        led_in = before in _TECH_BEFORE and (
            self.has(i - 2, F.USE_VERB | F.DEPEND_VERB) or two_before in _TECH_TWO_BEFORE
        )
        versioned = _VERSION.fullmatch(after) is not None
        return led_in or before in _TECH_DIRECTLY_BEFORE or versioned or after in _TECH_AFTER

    def technology_beside(self, i: int) -> bool:
        left = i >= 2 and self.word(i - 1) in _LINKS and self.taken[i - 2] == "technologies"
        right = i + 2 < len(self.words) and self.word(i + 1) in _LINKS and self.taken[i + 2] == "technologies"
        return left or right

    def person_starts(self, i: int) -> bool:
        lower, count = self.lower[i], lexicon().lower_count(self.lower[i])
        if self.has(i, F.PERSON_TITLE):
            return self.capital(i + 1) or (self.word(i + 1) == "." and self.capital(i + 2))
        if self.all_lower:
            return self.has(i, F.FIRST_NAME) and count < 3 and not self.has(i, F.NAME_WORD)
        if not self.capital(i):
            return False
        opens = self.has(i, F.SENTENCE_START)
        family_name = self.capital(i + 1) and self.has(i + 1, F.LAST_NAME) and not self.has(i + 1, F.STOP_WORD)
        if self.has(i, F.FIRST_NAME):
            if self.has(i, F.NAME_WORD | F.STOP_WORD):
                if opens and family_name:
                    return True
                acts = (self.person_verb(i + 1) and self.word(i + 1) not in {*_WEAK_VERBS, "will"}) or (
                    self.word(i + 1) in ("will", "and") and not self.has(i + 2, F.STOP_WORD)
                )
                return (not opens or acts) and not self.has(i, F.DATE_WORD | F.STOP_WORD)
            return count <= 30 or not opens
        if self.has(i, F.STOP_WORD):
            return False
        if self.word(i + 1) in _SURELY_PERSON_VERBS and (not opens or count < 3):
            return not self.has(i, F.ORGANIZATION | F.DEPARTMENT) and lower not in ("user", "team")
        return (
            family_name
            and self.taken[i + 1] is None
            and self.has(i, F.NEVER_LOWER)
            and not self.has(i, F.UPPER)
            and not self.has(i + 1, F.SAFE_TECH | F.CASED_TECH)
        )

    def person_goes_on(self, i: int) -> bool:
        if i >= len(self.words) or self.taken[i] is not None:
            return False
        if self.written[i] == ".":
            return len(self.written[i - 1]) == 1
        if self.lower[i] in _PARTICLES:
            return self.capital(i + 1) or self.word(i + 1) in ("der", "la", "den")
        return self.name_like(i) and not self.has(i, F.SAFE_TECH)

    def take(self, first: int, end: int, kind: str) -> None:
        if any(self.taken[first:end]):
            return
        self.taken[first:end] = [kind] * (end - first)
        self.spans.append(Span(self.words[first].start, self.words[end - 1].end, kind, CONFIDENCE))

"""Splits text into words and says which words stand in a word list."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import NamedTuple

# Tried in this order: links and addresses, names with signs (C++, F#, .NET), Next.js, T-SQL, file.name,
# words joined by hyphen, slash or apostrophe (not the possessive), the possessive, any other sign.
WORD = re.compile(
    r"""https?://\S+
      | [\w.+-]{1,64}@[\w-]+\.[\w.]+
      | [Cc]\+\+ | [CcFf]\# | \.NET\b
      | [A-Za-zÀ-ɏḀ-ỿ]+\.(?:js|io|ai|NET|net|dev|com|cpp|app)\b
      | T-SQL
      | [^\W_]{1,64}(?:[._][^\W_]+){1,16}(?=[\s,;:)]|$)
      | [^\W_]+(?:['’](?!s\b)[^\W_]+)?(?:[-_/][^\W_]+(?:['’](?!s\b)[^\W_]+)?)*
      | ['’]s\b
      | [^\w\s] | _""",
    re.X,
)

Phrases = Mapping[str, list[tuple[tuple[str, ...], tuple[str, ...]]]]


class Word(NamedTuple):
    """One word or sign: its text and the character offsets `start` <= i < `end`."""

    text: str
    start: int
    end: int


class Span(NamedTuple):
    """A found entity: character offsets, type (`people`, …, `dates`) and confidence 0-1."""

    start: int
    end: int
    type: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The word lists. Sets are in lower case unless said otherwise; phrases go from first word to names."""

    technologies_safe: Phrases
    technologies_cased: Phrases
    organizations: Phrases
    departments: Phrases
    places: Phrases
    ambiguous: frozenset[str]  # as written: capitalised words that are a technology only in context
    company_products: frozenset[str]  # as written: products that are employers too
    lower_ambiguous: frozenset[str]  # lower case of a case-exact technology, as typed in haste
    first_names: frozenset[str]
    last_names: frozenset[str]
    cues: Mapping[str, frozenset[str]]  # by the headings of cues.txt
    counts: Mapping[str, tuple[int, int]]  # word -> times seen in lower case, capitalised inside a sentence

    def lower_count(self, lower: str) -> int:
        """How often the training text has the word in lower case; 0 for a word never seen."""
        return self.counts.get(lower, (0, 0))[0]


def word_set(text: str) -> frozenset[str]:
    """The words of `text`, which white space separates."""
    return frozenset(text.split())


def split_words(text: str) -> list[Word]:
    """Splits `text` into words and signs in reading order; white space belongs to none."""
    return [Word(m.group(), m.start(), m.end()) for m in WORD.finditer(text)]


def phrase_length(phrases: Phrases, written: list[str], lower: list[str], i: int, *, exact_case: bool) -> int:
    """Number of words of the longest listed name that starts at word `i`; 0 where none does."""
    for name_lower, name_written in phrases.get(lower[i], ()):
        n = len(name_lower)
        if tuple(lower[i : i + n]) == name_lower and (not exact_case or tuple(written[i : i + n]) == name_written):
            return n
    return 0


def read_sections(name: str) -> dict[str, list[str]]:
    """Lines of a file of the `lexicon` folder under its `[headings]`, blank lines left out."""
    sections: dict[str, list[str]] = {}
    for line in (files("r3_lite") / "lexicon" / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("[") and line.endswith("]"):
            sections[line[1:-1]] = []
        elif line:
            sections[next(reversed(sections))].append(line)
    return sections


@lru_cache(maxsize=1)
def lexicon() -> Lexicon:
    """The word lists, read once per process (about 0.1 s)."""
    technologies = read_sections("technologies.txt")
    organizations = read_sections("organizations.txt")
    people = read_sections("people.txt")
    cues = {name: frozenset(" ".join(lines).split()) for name, lines in read_sections("cues.txt").items()}
    ambiguous = frozenset(technologies["ambiguous"])
    counts = {}
    for line in read_sections("word_counts.txt")["word counts"]:
        word, lower, capital = line.split(" ")
        counts[word] = (int(lower), int(capital))
    return Lexicon(
        technologies_safe=_phrases(technologies["safe"]),
        technologies_cased=_phrases(technologies["cased"]),
        organizations=_phrases(organizations["organizations"]),
        departments=_phrases(organizations["departments"]),
        places=_phrases(read_sections("places.txt")["places"]),
        ambiguous=ambiguous,
        company_products=frozenset(technologies["companies too"]),
        lower_ambiguous=frozenset(
            n.lower() for n in (*ambiguous, *technologies["cased"]) if n[1:].islower() and len(n) > 2
        ),
        first_names=frozenset(people["first names"]),
        last_names=frozenset(people["last names"]),
        cues=cues,
        counts=counts,
    )


def _phrases(names: Iterable[str]) -> Phrases:
    by_first: dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]] = {}
    for name in names:
        written = tuple(word.text for word in split_words(name))
        lower = tuple(word.lower() for word in written)
        by_first.setdefault(lower[0], []).append((lower, written))
    for entries in by_first.values():
        entries.sort(key=lambda entry: -len(entry[0]))
    return by_first

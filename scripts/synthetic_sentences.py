"""Makes labelled training sentences: patterns of entity_sentences.txt filled with listed and new names.

A pattern holds slots: [P]erson, [F]irst name, [O]rganization, department [E], [T]echnology, [J] project,
p[L]ace, [D]ate, number [X], [role], team word [tl], project word [pn] and [adj]ective. Names are partly
invented, so that a model learns from the sentence and not from the name alone.
"""

import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from r3_lite.entity_words import read_sections

Entity = tuple[int, int, str]
T = TypeVar("T")

SOURCE = Path(__file__).parent / "entity_sentences.txt"
SLOT = re.compile(r"\[([A-Za-z]+)\]")


def listed(text: str, separator: str | None = None) -> list[str]:
    """The words of `text`, or its parts between separators."""
    return text.split(separator)


SLOT_TYPES = {
    "P": "people",
    "F": "people",
    "O": "organizations",
    "E": "organizations",
    "T": "technologies",
    "J": "projects",
    "L": "places",
}

# The lists begin with the most frequent names; every second name is one of these.
FREQUENT_FIRST, FREQUENT_LAST = 1200, 6000
ONSETS = listed("b c d f g h j k l m n p r s t v w z br ch dr fl gr kl kr pl pr qu sh sk st th tr zh")
VOWELS = listed("a e i o u a e i o ai ea ei ia io oo ou y")
CODAS = ["", "", "", "", *listed("l m n r s t x k nd nt rk rn sk st th ng")]

REPOSITORY_HEADS = listed(
    "account admin alert android api audit auth backup billing cache cart catalog chat checkout config core "
    "crawler customer data deploy email event exporter feed fraud gateway identity image importer infra "
    "inventory invoice ios ledger log media metric mobile notification order parser partner payment pricing "
    "profile proxy report risk scheduler search session shared shipping sync tax token user vendor web worker"
)
COMPANY_HEADS = listed(
    "Atlantic Blue Bright Clear Crimson Deep Digital First Global Golden Green Iron Nordic North Open "
    "Pacific "
    "Prime Quantum Rapid Red Silver Smart Solid South Swift True United Urban"
)
COMPANY_TAILS = listed(
    "bird bridge cloud field forge fox gate hill lake leaf light mind nest path peak river rock sky "
    "star stone "
    "tree wave wolf wood works"
)
PLACE_HEADS = listed("New San Santa Saint Port Lake Mount Fort North South El Da La Los Bad Al")
PLACE_TAILS = listed("ville field burg ton berg stad ford port grad hausen minster wick mouth")
COMPANY_SUFFIXES = listed(
    "AB|AG|Airlines|Analytics|BV|Bank|Capital|Consulting|Corp|Corp.|Corporation|Dynamics|Energy|Foods|"
    "Foundation|"
    "Games|GmbH|Group|Health|Inc|Inc.|Industries|Institute|Insurance|LLC|Labs|Logistics|Ltd|Media|"
    "Motors|Networks|"
    "Oy|Partners|Pharma|Robotics|S.A.|Security|Software|Solutions|Studio|Studios|Systems|Technologies|"
    "Ventures",
    "|",
)
TECH_ENDINGS = listed("DB JS .js SQL Kit UI ML Flow Cache MQ QL CI Stack Lang Graph")
TECH_VENDORS = listed("Apache Google AWS Azure Microsoft Amazon GitHub Adobe")
TECH_PRODUCTS = listed(
    "Cloud Functions Pipelines Batch Docs Insights Monitor Search Storage Queue Translate Workflows Gateway"
)
PACKAGE_PREFIXES = ("lib", "py", "go-", "node-", "react-", "vue-", "django-", "pytest-")
PACKAGE_TAILS = ("router", "utils", "mock", "table", "hooks", "forms")
MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
WEEKDAYS = listed("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
FILLERS = {
    "tl": listed("team group squad department crew guild"),
    "pn": listed(
        "project project project app platform service repo repository initiative system rollout migration "
        "launch codebase module tool"
    ),
    "role": listed(
        "engineer,designer,product manager,CTO,CEO,tech lead,data scientist,intern,consultant,QA "
        "lead,developer,"
        "architect,analyst,recruiter,sales rep,founder,director,account manager,staff engineer,scrum master,"
        "professor,researcher",
        ",",
    ),
    "adj": listed(
        "slow,broken,flaky,great,overdue,blocked,done,fine,too expensive,confusing,stable,ready,on hold,"
        "behind schedule,faster now",
        ",",
    ),
}


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text with its entities and the spans whose label is not known (left out of the loss)."""

    text: str
    entities: tuple[Entity, ...]
    unknown: tuple[tuple[int, int], ...] = ()
    source: str = "synthetic"


class Generator:
    """Owns the random state and the word lists; every call of `sentences` goes on from there."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        technologies = read_sections("technologies.txt")
        organizations = read_sections("organizations.txt")
        people = read_sections("people.txt")
        self.safe = technologies["safe"]
        self.cased = technologies["cased"]
        self.company_products = technologies["companies too"]
        self.organizations = organizations["organizations"]
        self.departments = organizations["departments"]
        self.places = read_sections("places.txt")["places"]
        self.first_names = [name.title() for name in people["first names"] if len(name) > 2]
        wordy = set(" ".join(read_sections("cues.txt")["words that are names"]).split())
        wordy |= {place.lower() for place in self.places}
        self.wordy_names = [name for name in self.first_names if name.lower() in wordy]
        self.last_names = [name.title() for name in people["last names"] if len(name) > 2]
        self.repository_tails = " ".join(read_sections("cues.txt")["repository suffixes"]).split()
        patterns = read_patterns()
        self.things = patterns["names of things"]
        self.empty = patterns["empty"]
        # Natural variety comes from the further patterns: they are drawn twice as often.
        self.patterns = patterns["plain"] + 2 * patterns["further"]
        self.makers: dict[str, Callable[[], str]] = {
            "P": self.person,
            "F": self.first_name,
            "O": self.organization,
            "E": self.department,
            "T": self.technology,
            "J": self.project,
            "L": self.place,
            "D": self.date,
            "X": lambda: str(self.random.randrange(1, 40)),
        }

    def sentences(self, count: int) -> Iterator[Labelled]:
        """Yields `count` texts of one to three sentences, then each entity-free sentence in both cases."""
        for _ in range(count):
            yield self.text()
        for sentence in self.empty:
            yield Labelled(sentence, ())
            yield Labelled(sentence.lower(), ())

    def text(self) -> Labelled:
        """One text of one to three sentences; some in lower case, some without the last stop."""
        text = ""
        entities: list[Entity] = []
        for _ in range(self.pick([1, 1, 1, 1, 2, 2, 3])):
            if self.chance(0.22):
                sentence, found = self.pick(self.empty), list[Entity]()
            else:
                sentence, found = self.fill(self.pick(self.patterns))
            if text:
                text += self.pick([" ", " ", " ", " " if text.endswith(".") else "; ", "\n", "\n- "])
            entities += [(start + len(text), end + len(text), kind) for start, end, kind in found]
            text += sentence
        if text.endswith(".") and self.chance(0.15):
            text = text[:-1]
        if self.chance(0.13) and len(text.lower()) == len(text):
            text = text.lower()
        return Labelled(text, tuple(entities))

    def fill(self, pattern: str) -> tuple[str, list[Entity]]:
        """Replaces each slot of the pattern by a name."""
        text = ""
        entities: list[Entity] = []
        done = 0
        for slot in SLOT.finditer(pattern):
            text += pattern[done : slot.start()]
            done = slot.end()
            kind = slot[1]
            value = self.makers[kind]() if kind in self.makers else self.pick(FILLERS[kind])
            if kind in SLOT_TYPES:
                entities.append((len(text), len(text) + len(value), SLOT_TYPES[kind]))
            text += value
        return text + pattern[done:], entities

    def person(self) -> str:
        r = self.random.random()
        if r < 0.50:
            return self.first_name()
        if r < 0.92:
            return f"{self.first_name()} {self.last_name()}"
        if r < 0.94:
            return f"{self.first_name()} {self.pick('ABCDEFGHJKLMNPRSTW')}. {self.last_name()}"
        if r < 0.965:
            title = self.pick(["Dr.", "Mr.", "Ms.", "Mrs.", "Prof.", "Dr"])
            return f"{title} {self.pick(['', self.first_name() + ' '])}{self.last_name()}"
        if r < 0.985:
            return self.last_name()
        return f"{self.first_name()} {self.first_name()} {self.last_name()}"

    def first_name(self) -> str:
        if self.chance(0.05):
            return self.pick(self.wordy_names)
        return self.invented() if self.chance(0.10) else self.listed(self.first_names, FREQUENT_FIRST)

    def last_name(self) -> str:
        name = self.invented() if self.chance(0.10) else self.listed(self.last_names, FREQUENT_LAST)
        r = self.random.random()
        if r < 0.03:
            return self.pick(["O'", "Mc", "Mac"]) + name
        if r < 0.06:
            return self.pick(["van der ", "de la ", "von ", "van ", "de ", "al-", "bin ", "El "]) + name
        if r < 0.08:
            return f"{name}-{self.pick(self.last_names)}"
        return name

    def organization(self) -> str:
        r = self.random.random()
        if r < 0.24:
            return self.pick(self.organizations)
        if r < 0.30:
            return self.pick(self.company_products)
        if r < 0.41:
            return f"{self.invented()} {self.pick(COMPANY_SUFFIXES)}"
        if r < 0.52:
            return self.compound() + self.pick(["", " " + self.pick(COMPANY_SUFFIXES)])
        if r < 0.60:
            return self.pick(self.last_names) + self.pick(
                [" " + self.pick(COMPANY_SUFFIXES), " & " + self.pick(self.last_names), " & Co", " and Sons"]
            )
        if r < 0.73:
            return self.invented()
        if r < 0.75:
            return f"{self.pick(['Banco', 'Grupo', 'Casa', 'Studio', 'Club', self.invented()])} "
            f"{self.invented()}"
        if r < 0.80:
            place = self.pick(self.places)
            kind = self.pick(["University", "Hospital", "Bank", "Institute of Technology", "School of Economics"])
            return self.pick([f"University of {place}", f"{place} {kind}"])
        if r < 0.85:
            return f"{self.pick(self.things)} {self.pick(COMPANY_SUFFIXES)}"
        if r < 0.88:
            head = self.pick(["Ministry of", "Bank of", "Institute for", "Department of"])
            return f"{head} {self.pick([*self.places, 'Health', 'Education', 'Finance'])}"
        if r < 0.91:
            return "".join(self.pick("ABCDEFGIKLMNPRSTVW") for _ in range(self.pick([3, 3, 4])))
        return self.department()

    def department(self) -> str:
        return self.pick(self.departments)

    def technology(self) -> str:
        r = self.random.random()
        if r < 0.45:
            return self.in_haste(self.pick(self.safe))
        if r < 0.66:
            return self.in_haste(self.pick(self.cased))
        if r < 0.72:
            return self.invented() + self.pick(TECH_ENDINGS)
        if r < 0.76:
            product = self.pick([self.invented(), self.pick(self.things), self.pick(TECH_PRODUCTS)])
            return f"{self.pick(TECH_VENDORS)} {product}"
        if r < 0.87:
            return self.invented()
        if r < 0.90:
            return self.pick(PACKAGE_PREFIXES) + self.pick([*REPOSITORY_HEADS, *PACKAGE_TAILS])
        if r < 0.95:
            return self.compound()
        return self.pick(self.things)

    def in_haste(self, name: str) -> str:
        """Now and then in lower case, as people type the names of tools."""
        return name.lower() if self.chance(0.06) and len(name) > 2 else name

    def project(self) -> str:
        r = self.random.random()
        if r < 0.50:
            return self.pick(self.things)
        if r < 0.65:
            return self.invented()
        if r < 0.74:
            return self.pick(["Project ", "Operation ", "Project "]) + self.pick(
                [self.pick(self.things), self.invented()]
            )
        if r < 0.92:
            return self.pick(REPOSITORY_HEADS) + self.pick("---_") + self.pick(self.repository_tails)
        if r < 0.96:
            tail = self.pick(["2.0", "Next", "Portal", "Mobile", "API", "UI", "Hub", "One", "Lite", "Cloud"])
            return self.pick(self.things) + self.pick([" ", ""]) + tail
        head = self.pick(["Customer", "Data", "Partner", "Employee", "Vendor", "Mobile"])
        return f"{head} {self.pick(['Portal', 'Hub', 'Platform', 'Migration', 'Dashboard', 'Redesign'])}"

    def place(self) -> str:
        r = self.random.random()
        if r < 0.06:
            return self.invented()
        if r < 0.09:
            return self.invented() + self.pick(PLACE_TAILS)
        if r < 0.12:
            return f"{self.pick(PLACE_HEADS)} {self.invented()}"
        return self.pick(self.places)

    def date(self) -> str:
        month, day = self.pick(MONTHS), self.random.randrange(1, 29)
        weekday, year = self.pick(WEEKDAYS), self.random.randrange(2010, 2027)
        return self.pick(
            [
                weekday,
                f"next {weekday}",
                f"last {weekday}",
                f"{month} {day}",
                f"{day} {month}",
                f"{month} {day}, {year}",
                f"2025-{self.random.randrange(1, 13):02d}-{day:02d}",
                f"Q{self.random.randrange(1, 5)}",
                month,
                str(year),
                "tomorrow",
                "yesterday",
                "last year",
                "next week",
                f"end of {month}",
            ]
        )

    def compound(self) -> str:
        return self.pick(COMPANY_HEADS) + self.pick(COMPANY_TAILS)

    def listed(self, names: list[str], frequent: int) -> str:
        return self.pick(names[:frequent] if self.chance(0.6) else names)

    def invented(self) -> str:
        """A pronounceable word that stands in no list."""
        syllables = self.pick([2, 2, 2, 3, 3])
        parts = [self.pick(ONSETS) + self.pick(VOWELS) for _ in range(syllables)]
        if self.chance(0.15):
            parts[0] = self.pick(VOWELS)
        return ("".join(parts) + self.pick(CODAS)).capitalize()

    def pick(self, values: Sequence[T]) -> T:
        return self.random.choice(values)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability


def read_patterns() -> dict[str, list[str]]:
    """The sections of entity_sentences.txt."""
    sections: dict[str, list[str]] = {}
    for line in SOURCE.read_text(encoding="utf-8").splitlines():
        if re.fullmatch(r"\[(plain|further|empty|names of things)\]", line):
            sections[line[1:-1]] = []
        elif line:
            sections[next(reversed(sections))].append(line)
    return sections

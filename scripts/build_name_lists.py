"""Writes r3_lite/lexicon/people.txt: first and last names of the packages `names` and `Faker` (both MIT).

usage: python scripts/build_name_lists.py   (needs names==0.3.0 and Faker==40.63.0)
"""

import importlib
import pkgutil
import re
import unicodedata
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import faker.providers.person as person
import names

LEXICON = Path(__file__).parent.parent / "r3_lite" / "lexicon"
NAME = re.compile(r"[A-Za-zÀ-ɏḀ-ỿ'’-]{2,20}")
FIRST = ("first_names", "first_romanized_names", "romanized_first_names")
LAST = ("last_names", "romanized_last", "last_romanized")
# How many of the most frequent names of the census lists are taken; below come rarities.
MALE, FEMALE, FAMILY = 1219, 3000, 6000


def main() -> None:
    """Collects, folds accents of first names (people type them without) and writes the file."""
    census = Path(names.__file__).parent
    male = census_names(census / "dist.male.first", MALE)
    female = census_names(census / "dist.female.first", FEMALE)
    # Most frequent first: the training sentences draw every second name from the head of the list.
    frequent = [name for pair in zip_longest(male, female) for name in pair if name]
    others = {form for name in faker_names(FIRST) for form in (name, without_accents(name))}
    first = dict.fromkeys([*frequent, *sorted(others)])
    family = census_names(census / "dist.all.last", FAMILY)
    last = dict.fromkeys([*family, *sorted(set(faker_names(LAST)))])
    lines = ["[first names]", *first, "", "[last names]", *last]
    (LEXICON / "people.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def census_names(path: Path, count: int) -> Iterator[str]:
    """The first `count` names of a census list, in lower case."""
    for line in path.read_text(encoding="ascii").splitlines()[:count]:
        yield line.split()[0].lower()


def faker_names(prefixes: tuple[str, ...]) -> Iterator[str]:
    """Names of one word in Latin letters, in lower case, of all locales' attributes that start so."""
    for module in pkgutil.iter_modules(person.__path__):
        provider = importlib.import_module(f"{person.__name__}.{module.name}").Provider
        for attribute in dir(provider):
            if attribute.startswith(prefixes):
                values = getattr(provider, attribute)
                if isinstance(values, property) or callable(values):
                    continue
                for value in values:
                    name = value if isinstance(value, str) else value[-1]
                    if NAME.fullmatch(name):
                        yield name.lower()


def without_accents(name: str) -> str:
    """The name as typed on a keyboard without accents."""
    return "".join(c for c in unicodedata.normalize("NFD", name) if not unicodedata.combining(c))


if __name__ == "__main__":
    main()

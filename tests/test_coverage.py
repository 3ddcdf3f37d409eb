"""How much of a query's words a text holds, worked out by hand."""

import math

import pytest

from r3_lite.coverage import coverage, coverages
from r3_lite.store import Record

DAY = "2024-01-01T00:00:00.000000Z"


def memory(seq: int, content: str, author: str | None = None) -> Record:
    return Record(seq, f"mem_{seq}", "u", content, "{}", "medium", f"h{seq}", DAY, DAY, author, None)


@pytest.mark.parametrize(
    ("terms", "share"),
    [
        (("port",), 1.0),
        (("ports", "deploying"), 1.0),
        (("port", "nothing"), 0.5),
        (("caroline",), 1.0),
        (("2024", "01"), 1.0),
        (("creme", "brulee"), 1.0),
        (("crème",), 1.0),
        (("東 京",), 1.0),
        (("京 都",), 0.0),
        (("서 울",), 1.0),
        (("nothing",), 0.0),
        ((), 0.0),
    ],
)
def test_coverage_is_the_share_of_terms_held(terms: tuple[str, ...], share: float) -> None:
    record = memory(1, "The Port was deployed. Crème brûlée in 東京 and 서울", author="Caroline")
    assert coverage(terms, record) == share


def test_a_short_word_is_held_as_it_stands_or_in_the_plural() -> None:
    texts = ["good goal", "let's go!", "three gos", "ago"]
    held = coverages(["go"], [memory(n, text) for n, text in enumerate(texts)])
    assert held == {0: 0.0, 1: 1.0, 2: 1.0, 3: 0.0}


def test_a_longer_word_is_held_by_its_stem_and_half_by_a_part_of_a_word() -> None:
    texts = ["hiking in Ghent", "Müllers Straße", "the mail-server", "mail", "hotmail"]
    memories = [memory(n, text) for n, text in enumerate(texts)]
    assert coverages(["hikes"], memories)[0] == 1.0
    assert coverages(["müller"], memories)[1] == 1.0
    assert coverages(["strasse"], memories)[1] == 1.0
    assert {n: coverages(["mails"], memories)[n] for n in (2, 3, 4)} == {2: 1.0, 3: 1.0, 4: 0.5}


def test_a_rare_term_counts_more_than_one_that_most_texts_hold() -> None:
    memories = [memory(1, "port siren"), memory(2, "port"), memory(3, "siren port"), memory(4, "port 東京")]
    held = coverages(["port", "東 京"], memories)
    common, rare = math.log(1 + 4 / 5), math.log(1 + 4 / 2)
    assert held == pytest.approx(dict.fromkeys((1, 2, 3), common / (common + rare)) | {4: 1.0})
    assert coverages([], memories) == {}

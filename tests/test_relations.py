"""Rules of r3_lite.relations. Entities are given as `[P Ana]`: P, O, T, J, L or D and the name."""

import re

import pytest

from r3_lite.entity_words import Span
from r3_lite.relations import find_relations

TYPES = {
    "P": "people",
    "O": "organizations",
    "T": "technologies",
    "J": "projects",
    "L": "places",
    "D": "dates",
}


def relations(marked: str) -> list[str]:
    text = ""
    spans = []
    done = 0
    for match in re.finditer(r"\[([POTJLD]) ([^\]]+)\]", marked):
        text += marked[done : match.start()]
        spans.append(Span(len(text), len(text) + len(match[2]), TYPES[match[1]], 1.0))
        text += match[2]
        done = match.end()
    text += marked[done:]
    names = [text[span.start : span.end] for span in spans]
    return [f"{names[a]} {kind} {names[b]}" for a, kind, b in find_relations(text, spans)]


@pytest.mark.parametrize(
    ("marked", "expected"),
    [
        ("[P Ana] works at [O Kinto].", "Ana WORKS_FOR Kinto"),
        ("[P Ana] from [O Sales] called.", "Ana WORKS_FOR Sales"),
        ("[O Kinto] hired [P Ana].", "Ana WORKS_FOR Kinto"),
        ("[P Ana] is our contact at [O Kinto].", "Ana WORKS_FOR Kinto"),
        ("[P Ana] manages [P Bo].", "Ana MANAGES Bo"),
        ("[J Nova] is managed by [P Ana].", "Ana MANAGES Nova"),
        ("[P Ana] is the tech lead of [J Nova].", "Ana LEADS Nova"),
        ("[J Nova] is led by CEO [P Ana].", "Ana LEADS Nova"),
        ("[P Ana] reports to [P Bo].", "Ana REPORTS_TO Bo"),
        ("[P Ana]'s manager is [P Bo].", "Ana REPORTS_TO Bo"),
        ("[J Nova] will use [T Redis] 7.", "Nova USES Redis"),
        ("[P Ana] works on the [J Nova] app with [T Go].", "Nova USES Go"),
        ("The [J Nova] service is written in [T Go].", "Nova BUILT_WITH Go"),
        ("[P Ana] owns [J Nova].", "Ana OWNS Nova"),
        ("[T Redis] was created by [P Bo].", "Bo OWNS Redis"),
        ("[O Kinto] is based in [L Lima].", "Kinto LOCATED_IN Lima"),
        ("[P Ana] lives in [L Lima].", "Ana LOCATED_IN Lima"),
        ("The [O Core] team is part of [O Platform].", "Core PART_OF Platform"),
        ("[P Ana] is a friend of [P Bo].", "Ana KNOWS Bo"),
        ("[P Ana] collaborates with [P Bo].", "Ana KNOWS Bo"),
        ("[J Nova] depends on [J Ledger].", "Nova DEPENDS_ON Ledger"),
        ("[J Nova] integrates with [T Stripe].", "Nova INTEGRATES_WITH Stripe"),
        ("[J Nova] is related to [J Ledger].", "Nova RELATED_TO Ledger"),
    ],
)
def test_each_type_has_its_verbs(marked: str, expected: str) -> None:
    assert relations(marked) == [expected]


@pytest.mark.parametrize(
    "marked",
    [
        "[J Nova] does not use [T Redis].",
        "[J Nova] won't use [T Redis].",
        "[J Nova] might use [T Redis].",
        "[J Nova] should use [T Redis].",
        "[J Nova] used to depend on [T Redis].",
        "[P Ana] no longer works for [O Kinto].",
        "[P Ana] previously worked with [P Bo].",
        "[P Ana] worked at [O Kinto] until [D 2021].",
        "[P Ana] wants to join [O Kinto].",
        "[P Ana] plans to move to [L Lima].",
        "Does [J Nova] use [T Redis]?",
        "does [J nova] use [T redis]",
        "If [J Nova] used [T Redis] we would pay more.",
        "[P Ana] asked whether [J Nova] uses [T Redis].",
        "Maybe [J Nova] uses [T Redis].",
        "[P Ana] is not friends with [P Bo].",
        "[P Ana] doesn't report to [P Bo] anymore.",
    ],
)
def test_denied_wished_asked_and_former_facts_are_none(marked: str) -> None:
    assert relations(marked) == []


def test_lists_give_every_pair() -> None:
    assert relations("[P Ana] and [P Bo] lead [J Nova] and [J Ledger].") == [
        "Ana LEADS Nova",
        "Ana LEADS Ledger",
        "Bo LEADS Nova",
        "Bo LEADS Ledger",
    ]


def test_coordinated_verbs_share_the_subject() -> None:
    assert relations("[J Nova] uses [T Go], depends on [J Ledger] and is owned by [P Ana].") == [
        "Nova USES Go",
        "Nova DEPENDS_ON Ledger",
        "Ana OWNS Nova",
    ]


def test_relative_clause_does_not_take_the_main_verb() -> None:
    assert relations("[P Ana], who leads [J Nova], uses [T Figma].") == ["Ana LEADS Nova", "Ana USES Figma"]


def test_object_of_one_verb_is_subject_of_the_next_clause() -> None:
    assert relations("[J Nova] uses [T Go] and [J Ledger] uses [T Rust].") == [
        "Nova USES Go",
        "Ledger USES Rust",
    ]


def test_positive_half_of_a_contrast_counts() -> None:
    assert relations("[J Nova] does not use [T Redis] but depends on [T Kafka].") == ["Nova DEPENDS_ON Kafka"]


def test_pronouns_go_back_to_the_last_fitting_entity() -> None:
    assert relations("I met [P Ana]. She works at [O Kinto].") == ["Ana WORKS_FOR Kinto"]
    assert relations("[J Nova] is new. It uses [T Go].") == ["Nova USES Go"]
    assert relations("Kickoff of [J Nova] on [D May 2]: [P Ana] leads it.") == ["Ana LEADS Nova"]


def test_change_of_employer_gives_the_new_one() -> None:
    assert relations("[P Ana] left [O Kinto] to join [O Zoho].") == ["Ana WORKS_FOR Zoho"]


def test_team_of_a_company_is_work_for_the_company() -> None:
    assert relations("[P Ana] leads the machine learning team at [O Kinto].") == ["Ana WORKS_FOR Kinto"]


def test_wrong_types_are_no_relation() -> None:
    assert relations("[T Redis] lives in [T Docker] and [L Lima] manages [D Monday].") == []


def test_a_relation_said_twice_is_reported_once() -> None:
    assert relations("[J Nova] uses [T Go]. Yes, [J Nova] uses [T Go].") == ["Nova USES Go"]


def test_signs_of_the_text_are_not_taken_for_marks() -> None:
    assert relations("<P0> [P Ana] <b>uses</b> x < y, [P Ana] uses [T Go].") == ["Ana USES Go"]


def test_long_text_without_stops_is_read_in_linear_steps() -> None:
    text = "[P Ana] uses [T Go] and " + "more words and then " * 5_000 + "[P Bo] uses [T Rust]"
    assert relations(text) == ["Ana USES Go", "Bo USES Rust"]

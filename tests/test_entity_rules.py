"""Rules of r3_lite.entity_rules."""

from itertools import pairwise

import pytest

from r3_lite.entity_features import word_features
from r3_lite.entity_rules import rule_spans
from r3_lite.entity_words import split_words


def found(text: str) -> list[tuple[str, str]]:
    words = split_words(text)
    return [(text[s.start : s.end], s.type) for s in rule_spans(text, words, word_features(text, words))]


def test_types_of_a_plain_memory() -> None:
    assert found("Maria Lopez from Marketing moved the Beacon project to Kubernetes in Lisbon on 2025-02-03.") == [
        ("Maria Lopez", "people"),
        ("Marketing", "organizations"),
        ("Beacon", "projects"),
        ("Kubernetes", "technologies"),
        ("Lisbon", "places"),
        ("2025-02-03", "dates"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Go to the store and get some rest.",
        "Swift action is needed, express your view.",
        "Marketing is hard for small shops.",
        "Will the build pass? May it pass.",
        "The rest of the notes are on the desk.",
    ],
)
def test_words_that_are_also_names_are_left_alone(text: str) -> None:
    assert found(text) == []


def test_ambiguous_technologies_count_beside_a_cue_or_another() -> None:
    assert ("Go", "technologies") in found("The worker is written in Go.")
    assert ("Rust", "technologies") in found("We compared Kotlin, Rust and others.")


def test_company_products_are_employers_after_work_verbs() -> None:
    assert found("Omar joined Stripe.") == [("Omar", "people"), ("Stripe", "organizations")]
    assert ("Stripe", "technologies") in found("We use Stripe and PostgreSQL.")


def test_project_stays_in_the_span_only_when_capitalised() -> None:
    assert found("She runs Project Apollo.") == [("Project Apollo", "projects")]
    assert found("She runs the Apollo project.") == [("Apollo", "projects")]


def test_titles_belong_to_the_person() -> None:
    assert found("We met Dr. Chen there.") == [("Dr. Chen", "people")]


def test_company_suffix_makes_an_organization() -> None:
    assert found("They bought from Quill Software GmbH.") == [("Quill Software GmbH", "organizations")]


def test_spans_do_not_overlap_and_are_in_order() -> None:
    text = "Ana Ruiz uses Docker Compose and GitHub Actions at Acme Corp in New York since May 2024."
    words = split_words(text)
    spans = rule_spans(text, words, word_features(text, words))
    assert all(a.end <= b.start for a, b in pairwise(spans))
    assert len(spans) == 6

"""Rules of r3_lite.extract."""

import subprocess
import sys

import numpy as np
import pytest

from r3_lite.entity_head import Pieces
from r3_lite.entity_words import Span
from r3_lite.extract import build_extraction, entity_key, extract

MEMORY = "Sarah Chen leads the Beacon project, which uses Kubernetes, since 2023-05-01."


def no_vectors() -> Pieces:
    return Pieces(np.zeros((0, 384), np.float32), np.zeros((0, 2), np.int64))


def test_without_vectors_the_rules_answer_and_say_so() -> None:
    found = extract(MEMORY)
    assert found.method == "rules"
    assert [(e.type, e.name) for e in found.entities] == [
        ("people", "Sarah Chen"),
        ("projects", "Beacon"),
        ("technologies", "Kubernetes"),
        ("dates", "2023-05-01"),
    ]
    assert [str(r) for r in found.relations] == [
        "Sarah Chen --[LEADS]--> Beacon",
        "Beacon --[USES]--> Kubernetes",
    ]


def test_with_vectors_the_head_answers_and_says_so() -> None:
    found = extract(MEMORY, no_vectors())
    assert found.method == "rules+head"
    assert ("dates", "2023-05-01") in [(e.type, e.name) for e in found.entities]
    assert all(0.4 <= e.confidence <= 1 for e in found.entities)


def test_offsets_give_back_the_names() -> None:
    found = extract("Zoë Ångström uses C++ at Acme Corp in São Paulo.")
    assert found.entities
    assert all("Zoë Ångström uses C++ at Acme Corp in São Paulo."[e.start : e.end] == e.name for e in found.entities)


@pytest.mark.parametrize("text", ["", "   \n", "…", "🙂🙂", "\x00", "日本語のメモです。", "a" * 10_000])
def test_any_text_is_taken(text: str) -> None:
    for pieces in (None, no_vectors()):
        assert extract(text, pieces).relations == ()


def test_relation_is_as_sure_as_its_less_sure_end() -> None:
    text = "Ana uses Go"
    spans = [Span(0, 3, "people", 0.9), Span(9, 11, "technologies", 0.6)]
    (relation,) = build_extraction(text, spans, "rules").relations
    assert relation.confidence == 0.6


def test_keywords_are_content_words_rare_ones_first() -> None:
    found = extract("The user said that the flumox and the flumox cache were in the house on Monday.")
    assert found.keywords[0] == "flumox"
    assert {"cache", "house"} <= set(found.keywords)
    assert not {"the", "and", "user", "that", "monday"} & set(found.keywords)


def test_there_are_at_most_ten_keywords() -> None:
    assert len(extract(" ".join(f"word{letter}" for letter in "abcdefghijklmnop")).keywords) == 10


@pytest.mark.parametrize(
    "spellings",
    [
        ("Delivery", "delivery", "DELIVERY", " delivery. "),
        ("business_days", "business days", "Business-Days", "business\u2010days", "business  days"),
        ("hermes-agent", "HERMES-AGENT", "Hermes agent", '"Hermes Agent"'),
        ("STRASSE", "Straße", "strasse"),
        ("José Núñez", "JOSE NUNEZ", "Jose\u0301 Nu\u0301n\u0303ez"),
        ("Ｇｏ", "Go"),
    ],
)
def test_spellings_of_one_name_have_one_key(spellings: tuple[str, ...]) -> None:
    assert len({entity_key(name) for name in spellings}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Maya", "Mayo"),
        ("Java", "JavaScript"),
        ("C", "C++"),
        ("C#", "C++"),
        ("かき", "がき"),
        ("и", "й"),
        ("!", "?"),
    ],
)
def test_different_names_have_different_keys(one: str, other: str) -> None:
    assert entity_key(one) != entity_key(other)


def test_importing_loads_neither_numpy_nor_the_word_lists() -> None:
    program = (
        "import sys, r3_lite.extract, r3_lite.entity_words as w;"
        "print('numpy' in sys.modules, w.lexicon.cache_info().currsize)"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.split() == ["False", "0"]

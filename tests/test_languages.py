"""Memories of every language are found by their words, without a model: whole, in part, inflected, spelt otherwise."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from benchmarks.languages import NOTES, missed, store_notes
from r3_lite.engine import Engine

MakeEngine = Callable[..., Engine]


@pytest.fixture
def by_words(make_engine: MakeEngine) -> Engine:
    return make_engine(intelligence="basic")


def first(engine: Engine, query: str, user_id: str = "ada") -> str:
    return engine.search(user_id, query).ranking.hits[0].record.content


@pytest.mark.parametrize("language", NOTES)
def test_every_query_ranks_its_note_first(language: str, by_words: Engine) -> None:
    store_notes(by_words, language, "ada", wait=False)
    assert missed(by_words, language, "ada", 1, paraphrased=False) == []


@pytest.mark.parametrize(("one", "other"), [pair for pair in pairwise(NOTES) if pair != ("Chinese", "Japanese")])
def test_every_query_ranks_its_note_first_beside_another_language(one: str, other: str, by_words: Engine) -> None:
    for language in (one, other):
        store_notes(by_words, language, "ada", wait=False)
    for language in (one, other):
        assert missed(by_words, language, "ada", 1, paraphrased=False) == []


@pytest.mark.parametrize("language", NOTES)
def test_every_language_has_enough_notes_to_be_wrong(language: str) -> None:
    assert len(NOTES[language]) >= 8
    assert len({note.text for note in NOTES[language]}) == len(NOTES[language])


@pytest.mark.parametrize("language", ["Chinese", "Japanese", "Korean", "Thai"])
def test_every_piece_of_a_sentence_without_spaces_finds_it(language: str, by_words: Engine) -> None:
    store_notes(by_words, language, "ada", wait=False)
    for note in NOTES[language]:
        for run in note.text.rstrip("。.").split():
            for length in (1, 2, 3, 4):
                for start in range(0, len(run) - length + 1, 3):
                    piece = run[start : start + length]
                    # A Thai vowel or tone mark is no beginning of a piece; of an id, only the whole is a word.
                    if piece[0].isalpha() and not any(c.isascii() for c in piece):
                        hits = by_words.search("ada", piece, limit=8).ranking.hits
                        assert note.text in [hit.record.content for hit in hits], piece


def test_a_word_itself_goes_before_its_other_forms(by_words: Engine) -> None:
    for text in ("Krankenversicherung teuer", "Versicherungen vergleichen", "Alte Versicherung", "Pflegeversicherung"):
        by_words.add("ada", text)
    hits = by_words.search("ada", "Versicherung").ranking.hits
    assert hits[0].record.content == "Alte Versicherung"
    assert len(hits) == 4
    assert hits[0].breakdown.keyword > max(hit.breakdown.keyword for hit in hits[1:]) > 0


def test_other_forms_of_a_frequent_word_are_not_looked_up(by_words: Engine) -> None:
    for number in range(5):
        by_words.add("ada", f"Versicherung Nummer {number}")
    by_words.add("ada", "Krankenversicherung teuer")
    found = [hit.record.content for hit in by_words.search("ada", "Versicherung").ranking.hits]
    assert sorted(found) == [f"Versicherung Nummer {number}" for number in range(5)]


def test_other_forms_are_those_of_the_user_alone(by_words: Engine) -> None:
    by_words.add("ada", "Krankenversicherung teuer")
    by_words.add("bob", "Pflegeversicherung billig")
    assert [hit.record.content for hit in by_words.search("ada", "Versicherung").ranking.hits] == [
        "Krankenversicherung teuer"
    ]


def test_a_memory_found_by_another_form_alone_is_not_cut(make_engine: MakeEngine) -> None:
    engine = make_engine()
    engine.add("ada", "Krankenversicherung", wait=True)
    for number in range(8):
        engine.add("ada", f"cat {number} and kitten", wait=True)
    hits = engine.search("ada", "versicherung kitten", limit=20).ranking.hits
    assert "Krankenversicherung" in [hit.record.content for hit in hits]


def test_a_changed_memory_is_found_by_parts_of_its_new_words(by_words: Engine) -> None:
    stored = by_words.add("ada", "Krankenversicherung")
    by_words.update("ada", stored.added.id, content="Haftpflichtversicherung")
    assert first(by_words, "Haftpflicht") == "Haftpflichtversicherung"
    assert by_words.search("ada", "Kranken").ranking.hits == ()

"""Sentences of a text: where they end, and whether their order matters."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from r3_lite.sentences import any_order, split


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("It rains. We stay! Why?", ["It rains.", "We stay!", "Why?"]),
        ("Ask Dr. Lee. She knows.", ["Ask Dr. Lee.", "She knows."]),
        ("Written by J. K. Rowling", ["Written by J. K. Rowling"]),
        ("Version 2.1. 3 is next", ["Version 2.1. 3 is next"]),
        ("First line.\nSecond line.", ["First line.\nSecond line."]),
        ("", [""]),
    ],
)
def test_a_text_of_one_line_falls_into_sentences(text: str, sentences: list[str]) -> None:
    assert split(text) == sentences


@given(st.text(st.sampled_from("aB .!?…\n1"), max_size=30))
def test_no_word_is_lost_in_splitting(text: str) -> None:
    assert "".join("".join(split(text)).split()) == "".join(text.split())


FREE = [
    ["He lives in Rome.", "She lives in Oslo."],
    ["Thanks, Ana!", "The report is due on Friday."],
    ["I like green tea.", "My sister prefers coffee."],
    ["Lisbon is my favorite city.", "It's so charming!"],
    ["The pump is noisy.", "Check the oil."],
    ['I\'m reading "Dune" again this winter.', "The library is near."],
    ["The API is written in Go.", "Our site runs on Django.", "I work from home."],
]
BOUND = [
    ["I moved to Oslo.", "Then I married."],
    ["I met Ana.", "I moved to Oslo."],
    ["Did Ana call?", "No."],
    ["Ana called Cleo.", "She was angry."],
    ["Turn off the power.", "Open the case."],
    ["The port is 8080.", "The port is 9090."],
    ["X is broken.", "It is urgent.", "Y is fine."],
    ["The deploy passed.", "That's great.", "The rollback failed."],
    ["I like tea.", "I prefer coffee now."],
    ["I was poor.", "I became rich."],
    ["My mother visited my aunt.", "She is ill."],
    ["The nurses called the doctors.", "They were late."],
    ["That's wrong.", "The earth is flat."],
    ["It is raining.", "So we stay."],
    ["Does he eat meat?", "He is vegan."],
    ["You may enter.", "Wait for the sign."],
    ["Do you like music?", "I love it."],
    ['Ana said "yes".', "My key is lost."],
    ["Das Haus ist alt.", "Wir bauen um."],
    ["Only one sentence."],
]


@pytest.mark.parametrize("sentences", FREE)
def test_facts_of_their_own_may_come_in_any_order(sentences: list[str]) -> None:
    assert any_order(sentences, sentences)


@pytest.mark.parametrize("sentences", BOUND)
def test_sentences_that_hang_on_each_other_stay_in_order(sentences: list[str]) -> None:
    assert not any_order(sentences, sentences)


@pytest.mark.parametrize("sentences", FREE + BOUND)
def test_the_answer_is_the_same_for_every_order(sentences: list[str]) -> None:
    answers = {any_order(order, order) for order in itertools.permutations(sentences)}
    assert len(answers) == 1

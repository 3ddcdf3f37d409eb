"""Windows: which pieces of a text get a vector."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers

from r3_lite.windows import BLOCK, MAX_WINDOWS, OVERLAP, WINDOW, Window, known_share, windows

WORDS = ("[UNK]", *string.ascii_lowercase)


@pytest.fixture(scope="module")
def letters() -> Tokenizer:
    """A tokenizer with one token per letter, a mark is a token too."""
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def test_short_text_is_one_window(letters: Tokenizer) -> None:
    assert list(windows("a b c", letters)) == [Window([1, 2, 3], "a b c", [(0, 1), (2, 3), (4, 5)], 1.0)]


@pytest.mark.parametrize("text", ["", " ", "\n\n"])
def test_text_without_tokens_is_one_empty_window(letters: Tokenizer, text: str) -> None:
    assert list(windows(text, letters)) == [Window([], text, [], 1.0)]


@pytest.mark.parametrize(
    ("tokens", "share"),
    [
        (["rocket", "##s", "!"], 1),
        (["[UNK]"], 0),
        (["where", "is", "the", "[UNK]", "?"], 0),
        (["[UNK]", "15", "[UNK]"], 0),
        (["rocket", "[UNK]", "!"], 1 / 2),
        (["when", "is", "the", "party", "[UNK]"], 4 / 5),
        ([], 1),
    ],
)
def test_function_words_and_numbers_tell_nothing_of_unknown_pieces(tokens: list[str], share: float) -> None:
    assert known_share(tokens) == share


def test_window_ends_with_the_last_sentence_that_fits(letters: Tokenizer) -> None:
    found = [window.text for window in windows("a b c d e. f g h. i j k l m n", letters, 12)]
    assert found == ["a b c d e. f g h.", "i j k l m n"]


def test_sentence_end_in_the_first_half_does_not_end_a_window(letters: Tokenizer) -> None:
    text = "a. " + " ".join("b" * 40)
    first = next(windows(text, letters, 20))
    assert len(first.ids) == 20


def test_windows_without_sentences_overlap(letters: Tokenizer) -> None:
    text = " ".join(string.ascii_lowercase * 4)
    first, second, *_ = windows(text, letters)
    assert len(first.ids) == WINDOW
    assert second.ids[:OVERLAP] == first.ids[-OVERLAP:]


def test_last_window_is_at_least_half_full(letters: Tokenizer) -> None:
    text = "a " * 18 + "b. c"
    assert [len(window.ids) for window in windows(text, letters, 20)] == [20, 10]


@given(st.lists(st.sampled_from([*"abcde", ".", "!", "\n"]), max_size=400).map(" ".join))
def test_every_token_is_in_a_window_and_none_is_too_long(letters: Tokenizer, text: str) -> None:
    whole = letters.encode(text, add_special_tokens=False).ids
    covered = 0
    for window in windows(text, letters):
        assert len(window.ids) <= WINDOW
        start = next(at for at in range(covered, -1, -1) if whole[at : at + len(window.ids)] == window.ids)
        covered = max(covered, start + len(window.ids))
    assert covered == len(whole)


def test_end_of_a_text_of_many_blocks_is_in_the_last_window(letters: Tokenizer) -> None:
    text = "a b c. " * BLOCK + "x y z"
    assert [window.text for window in windows(text, letters)][-1].endswith("x y z")


def test_word_at_the_edge_of_a_block_is_whole_in_some_window(letters: Tokenizer) -> None:
    text = "a " * (BLOCK // 2 - 1) + "needle " + "a " * BLOCK
    assert any("needle" in window.text for window in windows(text, letters))


def test_number_of_windows_has_a_ceiling(letters: Tokenizer) -> None:
    text = "a " * (2 * MAX_WINDOWS * WINDOW)
    assert sum(1 for _ in windows(text, letters)) == MAX_WINDOWS

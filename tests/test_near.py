"""Which texts are worded alike: everything that brute force finds, and nothing else."""

import random

import pytest

from r3_lite.near import alike

A, B, C, D, E, F = range(6)


def jaccard(a: frozenset[int], b: frozenset[int]) -> float:
    return len(a & b) / len(a | b)


def random_store(chance: random.Random) -> list[frozenset[int]]:
    """Short and long texts of few words, so that there are near matches, and some with words of their own."""
    vocabulary = chance.choice([8, 15, 40, 120])
    longest = min(vocabulary, chance.choice([4, 8, 12, 100]))
    store = [
        frozenset(chance.sample(range(vocabulary), chance.randint(0, longest))) for _ in range(chance.randint(0, 30))
    ]
    store += [frozenset({*list(words)[1:], 1_000 + n}) for n, words in enumerate(store) if chance.random() < 0.5]
    return store


def test_all_texts_with_another_like_them_are_found() -> None:
    """Brute force over 500 random stores is the oracle."""
    chance = random.Random(11)
    for _ in range(500):
        store = random_store(chance)
        threshold = chance.choice([0.5, 0.6, 0.7, 0.75, 0.85, 0.95, 1.0])
        expected = {
            n
            for n, words in enumerate(store)
            for m, other in enumerate(store)
            if n != m and words and other and jaccard(words, other) >= threshold
        }
        found = alike(store, threshold)
        assert {n for one, other, _ in found.pairs for n in (one, other)} == expected
        assert found.texts == len(expected)
        assert found.complete
        for one, other, similarity in found.pairs:
            assert similarity == pytest.approx(jaccard(store[one], store[other]))
            assert similarity >= threshold - 1e-9


def test_pairs_are_named_once_in_order() -> None:
    found = alike([frozenset({A, B, C}), frozenset({D}), frozenset({A, B, C})], 0.85)
    assert found.pairs == ((0, 2, 1.0),)
    assert found.texts == 2


def test_the_threshold_itself_is_enough() -> None:
    store = [frozenset({A, B, C, D}), frozenset({A, B, C, E}), frozenset({F})]
    assert alike(store, 0.6).pairs == ((0, 1, 0.6),)
    assert alike(store, 0.61).pairs == ()


def test_notes_from_one_template_are_compared_once() -> None:
    """Seven words each, six in common: 6 / 8. All of them look alike to the first, and each is named with it."""
    store = [frozenset({A, B, C, D, E, F, 100 + n}) for n in range(5_000)]
    found = alike(store, 0.75, max_compared=10)
    assert found.complete
    assert found.texts == 5_000
    assert len(found.pairs) == 4_999
    assert alike(store, 0.76, max_compared=10).texts == 0


def test_texts_without_words_are_like_no_other() -> None:
    assert alike([frozenset(), frozenset()], 0.5).pairs == ()


def test_what_became_too_much_is_said() -> None:
    chance = random.Random(3)
    store = [frozenset(chance.sample(range(30), 10)) for _ in range(200)]
    assert not alike(store, 0.9, max_compared=100).complete

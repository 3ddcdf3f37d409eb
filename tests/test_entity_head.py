"""Rules of r3_lite.entity_head."""

import hashlib
import math
from importlib.resources import files

import numpy as np
import pytest

from r3_lite.entity_features import COUNT
from r3_lite.entity_head import (
    LABELS,
    Head,
    Pieces,
    best_path,
    feature_matrix,
    head_input,
    label_log_probabilities,
    load_head,
    tag,
    word_vectors,
)
from r3_lite.entity_words import split_words


def pieces(rows: list[list[float]], offsets: list[tuple[int, int]]) -> Pieces:
    return Pieces(np.array(rows, np.float32), np.array(offsets, np.int64).reshape(-1, 2))


def test_word_vector_is_the_mean_of_its_pieces() -> None:
    words = split_words("ab cd")
    given = pieces([[9, 9], [1, 0], [3, 2], [5, 5], [9, 9]], [(0, 0), (0, 1), (1, 2), (3, 5), (0, 0)])
    assert word_vectors(words, given).tolist() == [[2, 1], [5, 5]]


def test_pieces_of_overlapping_windows_are_averaged() -> None:
    words = split_words("ab cd")
    given = pieces([[1, 1], [2, 2], [4, 4]], [(0, 2), (3, 5), (3, 5)])
    assert word_vectors(words, given).tolist() == [[1, 1], [3, 3]]


def test_words_without_pieces_are_zero_and_wide_pieces_count_for_each_word() -> None:
    words = split_words("→→ x y")
    given = pieces([[7.0], [1.0]], [(0, 2), (3, 4)])
    assert word_vectors(words, given).tolist() == [[7], [7], [1], [0]]


def test_feature_matrix_reads_bits_in_order() -> None:
    matrix = feature_matrix([1, 1 << 65 | 1 << 9])
    assert matrix.shape == (2, COUNT)
    assert np.flatnonzero(matrix[0]).tolist() == [0]
    assert np.flatnonzero(matrix[1]).tolist() == [9, 65]


def test_head_input_has_the_features_of_two_words_on_each_side() -> None:
    features = np.zeros((3, COUNT), np.uint8)
    features[:, 0] = [0, 1, 0]
    inputs = head_input(np.zeros((3, 384), np.float32), features)
    assert inputs.shape == (3, 714)
    first_feature = inputs[:, 384::COUNT]
    assert first_feature.tolist() == [[0, 0, 0, 1, 0], [0, 0, 1, 0, 0], [0, 1, 0, 0, 0]]


def test_inside_follows_only_its_own_type() -> None:
    scores = np.full((3, len(LABELS)), -5.0, np.float32)
    scores[0, LABELS.index("B-people")] = 0
    scores[1, LABELS.index("I-places")] = 0
    scores[1, LABELS.index("I-people")] = -1
    scores[2, LABELS.index("I-people")] = 0
    assert [LABELS[i] for i in best_path(scores)] == ["B-people", "I-people", "I-people"]


def test_no_text_starts_inside_a_name() -> None:
    scores = np.full((1, len(LABELS)), -5.0, np.float32)
    scores[0, LABELS.index("I-people")] = 0
    scores[0, LABELS.index("O")] = -1
    assert best_path(scores) == [0]


def test_log_probabilities_of_a_hand_made_head() -> None:
    # One input, one hidden unit with weight 1: gelu(1) = 0.8413447; the output puts it on label 0 only.
    output = np.zeros((1, len(LABELS)), np.float32)
    output[0, 0] = 1
    head = Head(np.ones((1, 1), np.float32), np.zeros(1, np.float32), output, np.zeros(len(LABELS), np.float32))
    result = label_log_probabilities(np.ones((1, 1), np.float32), head)
    expected = 0.8413447 - math.log(math.exp(0.8413447) + len(LABELS) - 1)
    assert result[0, 0] == pytest.approx(expected, abs=1e-6)


def test_log_probabilities_of_a_long_text_are_those_of_its_parts() -> None:
    inputs = np.random.default_rng(1).normal(size=(2_500, 714)).astype(np.float32)
    head = load_head()
    whole = label_log_probabilities(inputs, head)
    assert np.allclose(whole[2_000:2_100], label_log_probabilities(inputs[2_000:2_100], head), atol=1e-4)


def test_confidence_is_the_geometric_mean_of_the_words() -> None:
    # Weights of zero except the output bias: each label has its softmax probability in every word.
    bias = np.zeros(len(LABELS), np.float32)
    bias[LABELS.index("B-people")] = 5
    head = Head(np.zeros((714, 2), np.float32), np.zeros(2, np.float32), np.zeros((2, len(LABELS)), np.float32), bias)
    spans = tag(split_words("Ana Bo"), [0, 0], np.zeros((2, 384), np.float32), head)
    probability = math.exp(5) / (math.exp(5) + 10)
    assert [(s.start, s.end, s.type) for s in spans] == [(0, 3, "people"), (4, 6, "people")]
    assert spans[0].confidence == pytest.approx(probability, abs=1e-6)


def test_shipped_head_has_the_documented_shape() -> None:
    head = load_head()
    assert head.hidden.shape == (714, 96)
    assert head.output.shape == (96, len(LABELS)) == (96, 11)


def test_shipped_head_is_the_one_that_its_card_describes() -> None:
    folder = files("r3_lite") / "weights"
    digest = hashlib.sha256((folder / "entity_head.npz").read_bytes()).hexdigest()
    assert digest in (folder / "ENTITY_HEAD.md").read_text(encoding="utf-8")

"""The learned tagger: a small network over the encoder's fourth layer and the word features (numpy only).

Importing this module imports numpy, so callers import it where they need it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from r3_lite.entity_features import COUNT, ENTITY_TYPES
from r3_lite.entity_words import Span, Word

Floats = NDArray[np.float32]

WINDOW = 2  # words to the left and right whose features a word sees
LABELS = ("O", *(f"{prefix}-{kind}" for kind in ENTITY_TYPES for prefix in "BI"))
_FORBIDDEN = np.float32(-1e9)


@dataclass(frozen=True, slots=True)
class Pieces:
    """What the encoder says of a text's word pieces.

    `vectors`: float32 (n, 384), the output of the encoder's fourth layer. `offsets`: int (n, 2), start and
    end of each piece in the text's characters. Pieces without extent (special tokens) are ignored. Texts
    longer than the encoder's window are given as the pieces of several windows one after the other; windows
    may overlap.
    """

    vectors: Floats
    offsets: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Head:
    """Weights of the two layers: (714, 96), (96,), (96, 11), (11,)."""

    hidden: Floats
    hidden_bias: Floats
    output: Floats
    output_bias: Floats


@lru_cache(maxsize=1)
def load_head() -> Head:
    """The shipped weights, stored as float16 and computed in float32."""
    with files("r3_lite").joinpath("weights", "entity_head.npz").open("rb") as file, np.load(file) as arrays:
        return Head(*(arrays[name].astype(np.float32) for name in Head.__slots__))


def word_vectors(words: Sequence[Word], pieces: Pieces) -> Floats:
    """Mean vector of the pieces that overlap each word, zeros where there are none. Shape (words, 384)."""
    starts = np.fromiter((word.start for word in words), np.int64, len(words))
    ends = np.fromiter((word.end for word in words), np.int64, len(words))
    piece_starts, piece_ends = pieces.offsets[:, 0], pieces.offsets[:, 1]
    begin = np.searchsorted(ends, piece_starts, side="right")
    stop = np.searchsorted(starts, piece_ends, side="left")
    # A piece covers one word, save an unknown sign sequence, which may cover several.
    covered = np.where(piece_ends > piece_starts, np.maximum(stop - begin, 0), 0)
    piece = np.repeat(np.arange(len(covered)), covered)
    within = np.arange(len(piece)) - np.repeat(np.cumsum(covered) - covered, covered)
    word = begin[piece] + within
    vectors = np.zeros((len(words), pieces.vectors.shape[1]), np.float32)
    if len(word):
        if (word[1:] < word[:-1]).any():  # overlapping windows come back to words that had pieces before
            order = np.argsort(word, kind="stable")
            word, piece = word[order], piece[order]
        first = np.concatenate(([True], word[1:] != word[:-1]))
        vectors[word[first]] = pieces.vectors[piece[first]]
        # Most words are one piece; the few more are added one by one, which is quicker than any sum over groups.
        for w, p in zip(word[~first].tolist(), piece[~first].tolist(), strict=True):
            vectors[w] += pieces.vectors[p]
        counts = np.bincount(word, minlength=len(words))
        several = counts > 1
        vectors[several] /= counts[several, None].astype(np.float32)
    return vectors


def feature_matrix(bits: Sequence[int]) -> NDArray[np.uint8]:
    """Feature bits as zeros and ones, shape (words, 66)."""
    width = (COUNT + 7) // 8
    raw = np.frombuffer(b"".join(b.to_bytes(width, "little") for b in bits), np.uint8)
    return np.unpackbits(raw.reshape(len(bits), width), axis=1, count=COUNT, bitorder="little")


def head_input(vectors: Floats, features: NDArray[np.uint8]) -> Floats:
    """Each word's vector, then the features of the words from two before to two after. Shape (words, 714)."""
    n = len(features)
    padded = np.zeros((n + 2 * WINDOW, COUNT), np.float32)
    padded[WINDOW : WINDOW + n] = features
    return np.concatenate([vectors, *(padded[k : k + n] for k in range(2 * WINDOW + 1))], axis=1)


def tag(words: Sequence[Word], bits: Sequence[int], vectors: Floats, head: Head) -> list[Span]:
    """The most probable spans in order; confidence is the geometric mean of the words' probabilities."""
    if not words:
        return []
    log_probabilities = label_log_probabilities(head_input(vectors, feature_matrix(bits)), head)
    path = best_path(log_probabilities)
    spans = []
    i = 0
    while i < len(path):
        label = LABELS[path[i]]
        j = i + 1
        if label != "O":
            while j < len(path) and LABELS[path[j]] == f"I-{label[2:]}":
                j += 1
            confidence = float(np.exp(log_probabilities[range(i, j), path[i:j]].mean()))
            spans.append(Span(words[i].start, words[j - 1].end, label[2:], confidence))
        i = j
    return spans


def label_log_probabilities(inputs: Floats, head: Head) -> Floats:
    """Log probability of each of the 11 labels for each word."""
    hidden = _gelu(_product(inputs, head.hidden) + head.hidden_bias)
    logits = _product(hidden, head.output) + head.output_bias
    logits -= logits.max(axis=1, keepdims=True)
    result: Floats = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return result


def best_path(log_probabilities: Floats) -> list[int]:
    """Viterbi: the most probable labels in which I-x follows only B-x or I-x."""
    greedy: list[int] = log_probabilities.argmax(axis=1).tolist()
    if all(after in _MAY_FOLLOW[before] for before, after in pairwise((0, *greedy))):
        return greedy  # nothing forbids the best label of each word
    score = log_probabilities[0] + _START
    back = []
    for row in log_probabilities[1:]:
        candidates = score[:, None] + _TRANSITIONS
        best = candidates.argmax(axis=0)
        back.append(best)
        score = candidates[best, _COLUMNS] + row
    path = [int(score.argmax())]
    for best in reversed(back):
        path.append(int(best[path[-1]]))
    return path[::-1]


def _product(a: Floats, b: Floats) -> Floats:
    # A few rows at a time: above 2**18 multiplications OpenBLAS starts threads, at a loss.
    rows = max(1, 2**18 // b.size)
    padded = np.zeros((-(-len(a) // rows) * rows, a.shape[1]), np.float32)
    padded[: len(a)] = a
    result: Floats = (padded.reshape(-1, rows, a.shape[1]) @ b).reshape(-1, b.shape[1])[: len(a)]
    return result


def _gelu(x: Floats) -> Floats:
    # erf by Abramowitz and Stegun 7.1.26, absolute error below 1.5e-7.
    z = np.abs(x) / np.float32(2**0.5)
    t = 1 / (1 + 0.3275911 * z)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    erf = np.sign(x) * (1 - series * np.exp(-z * z))
    result: Floats = (0.5 * x * (1 + erf)).astype(np.float32)
    return result


_MAY_FOLLOW = [
    frozenset(i for i, after in enumerate(LABELS) if after[0] != "I" or after[2:] == before[2:]) for before in LABELS
]
_COLUMNS = np.arange(len(LABELS))
_START = np.array([_FORBIDDEN if label[0] == "I" else 0 for label in LABELS], np.float32)
_TRANSITIONS = np.array(
    [[_FORBIDDEN if after[0] == "I" and after[2:] != before[2:] else 0 for after in LABELS] for before in LABELS],
    np.float32,
)

"""Which of many texts are worded alike: word Jaccard of all pairs, exactly, without looking at all pairs."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Texts with more words are compared one by one instead of by the thousand.
_WIDTH = 64
# Candidates that are looked at together, and in all: about half a minute.
_CHUNK = 8_192
MAX_COMPARED = 400_000_000


@dataclass(frozen=True, slots=True)
class Alikes:
    """`pairs` of (text, another like it, Jaccard); `texts`, how many have one; `complete` unless it became too much."""

    pairs: tuple[tuple[int, int, float], ...]
    texts: int
    complete: bool


def alike(sets: Sequence[frozenset[int]], threshold: float, max_compared: int = MAX_COMPARED) -> Alikes:
    """Return for each text (as a set of words' numbers) that has one another text with Jaccard >= `threshold`.

    Prefix filtering: of two such texts, each with its words in one order, the rarest first, the first
    n - ceil(threshold * n) + 1 words of both have one in common (Bayardo, Ma, Srikant 2007), so only texts with such a
    word in common are compared. Words that only one text has can be in no overlap: texts alike but for those are
    one text to all others, so that thousands of notes from one template are compared once. Complete, unless more
    than `max_compared` comparisons were needed.
    """
    frequency: defaultdict[int, int] = defaultdict(int)
    for words in sets:
        for word in words:
            frequency[word] += 1
    classes: defaultdict[tuple[tuple[int, ...], int], list[int]] = defaultdict(list)
    for place, words in enumerate(sets):
        shared = tuple(sorted((w for w in words if frequency[w] > 1), key=lambda w: (frequency[w], w)))
        if words and len(shared) >= threshold * len(words) - 1e-9:
            classes[shared, len(words)].append(place)
    found, complete = _between(list(classes), threshold, frequency, max_compared)
    members = list(classes.values())
    pairs: dict[tuple[int, int], float] = {}
    texts = 0
    for number, ((shared, size), places) in enumerate(classes.items()):
        own = len(shared) / (2 * size - len(shared))
        if len(places) > 1 and own >= threshold - 1e-9:
            texts += len(places)
            pairs |= {(places[0], place): own for place in places[1:]}
        elif number in found:
            texts += len(places)
            other, similarity = found[number]
            for place in places:
                first, second = sorted((place, members[other][0]))
                pairs[first, second] = similarity
    return Alikes(tuple((a, b, similarity) for (a, b), similarity in sorted(pairs.items())), texts, complete)


def _between(
    classes: Sequence[tuple[tuple[int, ...], int]], threshold: float, frequency: dict[int, int], max_compared: int
) -> tuple[dict[int, tuple[int, float]], bool]:
    """Return for each class that has one another class that is like it, and the Jaccard of the two."""
    numbers = {word: number for number, word in enumerate(frequency)}
    sizes = np.array([size for _, size in classes], dtype=np.int32)
    narrow = np.full((len(classes), _WIDTH), len(numbers), dtype=np.int32)
    postings: defaultdict[int, list[int]] = defaultdict(list)
    prefixes: list[list[int]] = []
    for place, (shared, size) in enumerate(classes):
        # The words that nobody else has are the rarest and come first.
        length = size - math.ceil(threshold * size - 1e-9) + 1 - (size - len(shared))
        prefixes.append([numbers[word] for word in shared[:length]])
        for word in prefixes[-1]:
            postings[word].append(place)
        if len(shared) <= _WIDTH:
            narrow[place, : len(shared)] = [numbers[word] for word in shared]
    index = {word: np.array(places, dtype=np.int32) for word, places in postings.items() if len(places) > 1}
    wide = {place: frozenset(shared) for place, (shared, _) in enumerate(classes) if len(shared) > _WIDTH}
    ours = np.zeros(len(numbers) + 1, dtype=bool)
    found: dict[int, tuple[int, float]] = {}
    compared = 0
    for place, (shared, _) in enumerate(classes):
        if place in found:
            continue
        chosen = [numbers[word] for word in shared]
        ours[chosen] = True
        for word in prefixes[place]:
            candidates = index.get(word)
            if candidates is None:
                continue
            compared += len(candidates)
            match = _best(place, candidates, sizes, narrow, wide, ours, frozenset(shared), threshold)
            if match is not None:
                found[place] = match
                found.setdefault(match[0], (place, match[1]))
                break
        ours[chosen] = False
        if compared > max_compared:
            return found, False
    return found, True


def _best(
    place: int,
    candidates: NDArray[np.int32],
    sizes: NDArray[np.int32],
    narrow: NDArray[np.int32],
    wide: dict[int, frozenset[int]],
    ours: NDArray[np.bool_],
    words: frozenset[int],
    threshold: float,
) -> tuple[int, float] | None:
    """Return the first candidate chunk's best match and its Jaccard; None where no candidate is like the text."""
    size = int(sizes[place])
    for start in range(0, len(candidates), _CHUNK):
        chunk = candidates[start : start + _CHUNK]
        theirs = sizes[chunk]
        chunk = chunk[(theirs >= threshold * size - 1e-9) & (threshold * theirs <= size + 1e-9) & (chunk != place)]
        if not len(chunk):
            continue
        overlap = ours[narrow[chunk]].sum(axis=1)
        for at, other in enumerate(chunk.tolist()) if wide else ():
            if other in wide:
                overlap[at] = len(words & wide[other])
        similarity = overlap / (sizes[chunk] + size - overlap)
        best = int(similarity.argmax())
        if similarity[best] >= threshold - 1e-9:
            return int(chunk[best]), float(similarity[best])
    return None

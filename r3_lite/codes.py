"""Each user's vectors in two bits a number, held in memory: which lie near a query, before any vector is read.

A process reads the codes once and then only what is new; the file stays the truth: what is chosen here is looked up
there, and what is gone from there is noticed. 112 bytes a vector of 384 dimensions.
"""

import threading
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import apsw

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Words = NDArray[np.uint64]
    Floats = NDArray[np.float32]

# The four levels of the best quantizer of normally distributed numbers, which those of a unit vector nearly are, in
# standard deviations: ±(INNER ± OUTER), told apart at THRESHOLD (J. Max, 1960, table I).
_THRESHOLD, _INNER, _OUTER = 0.9816, 0.9816, 0.5288
# Of so many vectors, or of this share of more, the codes are compared whole: those with the nearest signs.
_LEAST_COMPARED, _SHARE_COMPARED = 4_096, 32
# A query is rounded to 2 * 7 + 1 levels, which take this many bits.
_QUERY_LEVELS, _QUERY_BITS = 7, 4
# Vectors of all users together that are held at most; of the last user who asked, all.
MOST_VECTORS = 2_000_000
# Rows read at once: as Python objects they take several times the room that they take in an array.
_BATCH = 20_000
# Vectors compared at once: their words and counts stay in the processor's cache.
_BLOCK = 16_384


def code_of(embedding: bytes) -> bytes:
    """Return the code of a unit vector (float32, little endian): its sign bits, then which numbers are large.

    The second bit says whether a number's sign and size agree (+ and large, or - and small). The dimension must be a
    multiple of 8.
    """
    import numpy as np

    vector = np.frombuffer(embedding, "<f4")
    positive, large = vector > 0, np.abs(vector) > _THRESHOLD / len(vector) ** 0.5
    return np.packbits(positive).tobytes() + np.packbits(positive == large).tobytes()


@dataclass(frozen=True, slots=True)
class Codes:
    """One user's codes in one space: ids of the chunks, ascending, their memories, and their bits in columns.

    The arrays are never written to. The first half of the columns of `words` are the sign bits, 64 to a word.
    """

    ids: "Integers"
    memories: "Integers"
    words: "Words"

    def __len__(self) -> int:
        return len(self.ids)

    def of_memories(self, memories: Collection[int]) -> "Codes":
        """Return those of these memories (seq)."""
        import numpy as np

        return self._at(np.flatnonzero(np.isin(self.memories, np.fromiter(memories, np.int64, len(memories)))))

    def nearest(self, query: bytes, count: int) -> "Codes":
        """Return the `count` nearest to a query (a unit vector, float32) by their codes, in no order."""
        import numpy as np

        if len(self) <= count:
            return self
        vector = np.frombuffer(query, "<f4")
        near = self._nearest_signs(vector, max(_LEAST_COMPARED, 2 * count, len(self) // _SHARE_COMPARED))
        return near._at(np.argpartition(near._products(vector), len(near) - count)[-count:])

    def _nearest_signs(self, vector: "Floats", count: int) -> "Codes":
        """Return the `count` whose sign bits differ least from a query's (Hamming), the newest of equal ones."""
        import numpy as np

        if len(self) <= count:
            return self
        signs = _columns(np.packbits(vector > 0).tobytes())[:, 0]
        distances = np.empty(len(self), np.uint16)
        for start in range(0, len(self), _BLOCK):
            block = self.words[: len(signs), start : start + _BLOCK]
            distances[start : start + _BLOCK] = _count(block, np.bitwise_xor, signs)
        radius = int(np.searchsorted(np.cumsum(np.bincount(distances)), count))
        nearer, at_radius = np.flatnonzero(distances < radius), np.flatnonzero(distances == radius)
        return self._at(np.concatenate((nearer, at_radius[len(nearer) - count :])))

    def _products(self, vector: "Floats") -> "Floats":
        """Return numbers that grow with the scalar products of the decoded vectors with the query."""
        import numpy as np

        half = len(self.words) // 2
        levels = np.rint(vector * (_QUERY_LEVELS / np.abs(vector).max())).astype(np.int64) + _QUERY_LEVELS
        products = np.zeros(len(self), np.float32)
        for weight, plane in ((_INNER, self.words[:half]), (_OUTER, self.words[half:])):
            # With bits as ±1 the product is, but for a constant, twice the counts of the query's bits among the set.
            products -= np.float32(weight * _QUERY_LEVELS) * _count(plane, np.bitwise_or, np.zeros(half, np.uint64))
            for bit in range(_QUERY_BITS):
                mask = _columns(np.packbits(levels >> bit & 1).tobytes())[:, 0]
                products += np.float32(weight * 2**bit) * _count(plane, np.bitwise_and, mask)
        return products

    def _at(self, places: "Integers") -> "Codes":
        return Codes(self.ids[places], self.memories[places], self.words[:, places])


class HeldCodes:
    """The codes of the users who asked last. Thread-safe; `Codes` once returned never change."""

    def __init__(self, most_vectors: int = MOST_VECTORS) -> None:
        self._most_vectors = most_vectors
        self._held: OrderedDict[tuple[int, str], tuple[int, _Columns]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, connection: apsw.Connection, space: int, user_id: str) -> Codes:
        """Return the user's codes as the caller's transaction sees them, with some that it does not see any more.

        Reads what was added since the last call. A file that was restored from a copy is read anew, and nothing is
        kept of what a transaction has written but not committed.
        """
        if connection.txn_state("main") == apsw.SQLITE_TXN_WRITE:
            columns = _Columns()
            columns.append_from(connection, space, user_id)
            return columns.codes()
        file_version = int(connection.execute("PRAGMA schema_version").get)
        with self._lock:
            known, columns = self._held.pop((space, user_id), (file_version, _Columns()))
            if known != file_version:
                columns = _Columns()
            columns.append_from(connection, space, user_id)
            self._held[space, user_id] = file_version, columns
            while len(self._held) > 1 and sum(len(held) for _, held in self._held.values()) > self._most_vectors:
                self._held.popitem(last=False)
            return columns.codes()

    def forget(self, space: int, user_id: str) -> None:
        """Read the user's codes anew at the next call."""
        with self._lock:
            self._held.pop((space, user_id), None)


class _Columns:
    """Arrays with room at their end: what was handed out of them stays as it was."""

    def __init__(self) -> None:
        import numpy as np

        self._count = 0
        self._ids: Integers = np.empty(0, np.int64)
        self._memories: Integers = np.empty(0, np.int64)
        self._words: Words = np.empty((0, 0), np.uint64)

    def __len__(self) -> int:
        return self._count

    def append_from(self, connection: apsw.Connection, space: int, user_id: str) -> None:
        """Add the chunks that are newer than the newest one here."""
        last = int(self._ids[self._count - 1]) if self._count else 0
        rows = iter(
            connection.execute(
                "SELECT id, memory, code FROM chunks WHERE space = ? AND user_id = ? AND id > ? ORDER BY id",
                (space, user_id, last),
            )
        )
        while batch := list(islice(rows, _BATCH)):
            self._append(*zip(*batch, strict=True))

    def _append(self, ids: tuple[int, ...], memories: tuple[int, ...], codes: tuple[bytes, ...]) -> None:
        import numpy as np

        half = len(codes[0]) // 2
        planes = np.frombuffer(b"".join(codes), np.uint8).reshape(len(codes), 2, half)
        words = np.concatenate([_columns(planes[:, plane].tobytes(), len(codes)) for plane in (0, 1)])
        start, end = self._count, self._count + len(ids)
        if end > len(self._ids):
            self._make_room(end + end // 4 if start else end, len(words))
        self._ids[start:end], self._memories[start:end], self._words[:, start:end] = ids, memories, words
        self._count = end

    def _make_room(self, room: int, width: int) -> None:
        import numpy as np

        ids, memories, words = np.empty(room, np.int64), np.empty(room, np.int64), np.empty((width, room), np.uint64)
        if self._count:
            for new, old in ((ids, self._ids), (memories, self._memories), (words, self._words)):
                new[..., : self._count] = old[..., : self._count]
        self._ids, self._memories, self._words = ids, memories, words

    def codes(self) -> Codes:
        """Return what is here now."""
        return Codes(self._ids[: self._count], self._memories[: self._count], self._words[:, : self._count])


def _columns(bits: bytes, count: int = 1) -> "Words":
    """Return the bits of `count` vectors as columns of 64-bit words, the last filled up with zeros."""
    import numpy as np

    rows = np.frombuffer(bits, np.uint8).reshape(count, -1)
    padded = np.zeros((count, -(-rows.shape[1] // 8) * 8), np.uint8)
    padded[:, : rows.shape[1]] = rows
    return padded.view(np.uint64).T


def _count(words: "Words", combine: "np.ufunc", query: "Words") -> "NDArray[np.uint16]":
    """Return how many bits are set in each vector's words once they are combined with those of a query."""
    import numpy as np

    counts = np.zeros(words.shape[1], np.uint16)
    for column, word in zip(words, query, strict=True):
        counts += np.bitwise_count(combine(column, word))
    return counts

"""What was read or answered before, kept in this process and never served once any process has changed it.

Every entry bears a mark: a number in the file that moves whenever the entry may have become untrue, read in the same
snapshot as the entry or before it. Whoever asks reads the mark anew, and gets what was kept under that very mark only.
"""

import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, NamedTuple

from cachetools import TTLCache

from r3_lite.store import Record

Key = tuple[str, str]
"""User and memory id."""

ANSWER_SECONDS = 300.0
L1_SECONDS = 24 * 3600.0
L2_SECONDS = 7 * L1_SECONDS
# A record read more often than this is hot, and so is one of these priorities.
PROMOTED_AFTER = 3
HOT = ("critical", "high")
# Characters of content and metadata that a record may have to be kept: longer ones are read from the file, lest ten
# thousand of them fill the memory.
MAX_CHARACTERS = 65_536


@dataclass(slots=True)
class Counts:
    """What happened to a cache since the start of the process; `seconds` is the time of `timed` answers."""

    hits: int = 0
    misses: int = 0
    evictions: int = 0
    expiries: int = 0
    promotions: int = 0
    demotions: int = 0
    timed: int = 0
    seconds: float = 0.0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def hit_rate(self) -> str:
        """The share of hits as text, "0.0%" before the first call."""
        calls = self.hits + self.misses
        return f"{100 * self.hits / calls if calls else 0.0:.1f}%"


class AnswerCache:
    """Whole answers, kept for five minutes. Bounded, thread-safe, measured; of size 0 it keeps nothing."""

    def __init__(self, max_size: int, timer: Callable[[], float] = time.monotonic) -> None:
        self.max_size = max(max_size, 0)
        self.counts = Counts()
        self._timer = timer
        # Time stands still during an operation: nothing expires between two looks at it.
        self._now = timer()
        self._entries: TTLCache[Hashable, tuple[int, Any]] = TTLCache(
            self.max_size + 1, ANSWER_SECONDS, lambda: self._now
        )
        # cachetools is not thread-safe, and tools run on threads.
        self._lock = threading.Lock()

    def get(self, key: Hashable, mark: int) -> Any | None:
        """Return what was kept under this mark, or None."""
        with self._lock:
            self._expire()
            kept = self._entries.get(key)
            if kept is None or kept[0] != mark:
                self.counts.misses += 1
                return None
            self.counts.hits += 1
            return kept[1]

    def put(self, key: Hashable, mark: int, answer: Any) -> None:
        """Keep an answer in place of the one that was kept before."""
        with self._lock:
            self._expire()
            if self.max_size > 0:
                self._entries[key] = (mark, answer)
            while len(self._entries) > self.max_size:
                self._entries.popitem()
                self.counts.evictions += 1

    def took(self, seconds: float) -> None:
        """Note how long a caller had to wait for an answer, be it kept or new."""
        with self._lock:
            self.counts.timed += 1
            self.counts.seconds += seconds

    def clear(self) -> None:
        """Forget everything but the counts."""
        with self._lock:
            self._entries.clear()

    def __len__(self) -> int:
        with self._lock:
            self._expire()
            return len(self._entries)

    def footprint(self) -> int:
        """Return the bytes that keys and answers take."""
        with self._lock:
            entries = list(self._entries.items())
        return sum(footprint(entry) for entry in entries)

    def _expire(self) -> None:
        self._now = self._timer()
        self.counts.expiries += len(self._entries.expire())


@dataclass(slots=True)
class _Held:
    """A record in a tier."""

    record: Record
    mark: int
    accesses: int

    @property
    def hot(self) -> bool:
        """Whether it belongs in L1."""
        return self.record.priority in HOT or self.accesses > PROMOTED_AFTER


class Wanted(NamedTuple):
    """A record that a tier shall hold: its owner's mark, how often it was asked for, and itself, where it was read."""

    user_id: str
    id: str
    mark: int
    accesses: int
    record: Record | None = None


@dataclass(frozen=True, slots=True)
class Arranged:
    """What arranging came to: records moved up and down, dropped as outdated or unwanted, their bytes, those held."""

    promoted: int
    demoted: int
    expired: int
    evicted: int
    freed: int
    held: int


class RecordCache:
    """Single memories in two tiers: L1 for the hot ones, a day long, then L2, where the others begin, seven days.

    `max_size` bounds both together; the least recently used of L2 make room first. Thread-safe and measured; of size 0
    it keeps nothing.
    """

    def __init__(self, max_size: int, timer: Callable[[], float] = time.monotonic) -> None:
        self.max_size = max(max_size, 0)
        self.counts = Counts()
        self._timer = timer
        self._now = timer()
        self._l1: TTLCache[Key, _Held] = TTLCache(self.max_size + 1, L1_SECONDS, lambda: self._now)
        self._l2: TTLCache[Key, _Held] = TTLCache(self.max_size + 1, L2_SECONDS, lambda: self._now)
        self._lock = threading.Lock()

    def get(self, user_id: str, memory_id: str, mark: int) -> Record | None:
        """Return the record that was kept under this mark, or None. The fourth access moves it into L1."""
        key = user_id, memory_id
        with self._lock:
            self._age()
            held = self._held(key)
            if held is None or held.mark != mark:
                self.counts.misses += 1
                return None
            self.counts.hits += 1
            held.accesses += 1
            if key in self._l2 and held.hot:
                self._place(key, held)
            return held.record

    def put(self, record: Record, mark: int, accesses: int = 0) -> bool:
        """Keep a record in the tier where it belongs and tell whether it is kept; accesses so far go on counting."""
        key = record.user_id, record.id
        with self._lock:
            self._age()
            known = self._held(key)
            if self.max_size == 0 or not fits(record):
                self._drop(key)
                return False
            self._place(key, _Held(record, mark, accesses + (known.accesses if known else 0)))
            while len(self._l1) + len(self._l2) > self.max_size:
                (self._l2 if len(self._l2) else self._l1).popitem()
                self.counts.evictions += 1
            return self._held(key) is not None

    def forget(self, user_id: str, memory_id: str | None = None) -> None:
        """Drop a record of a user, or all of them: they are gone from the file."""
        with self._lock:
            if memory_id is not None:
                self._drop((user_id, memory_id))
                return
            for key in [key for key in self._tiers() if key[0] == user_id]:
                self._drop(key)

    def lacks(self, wanted: Wanted) -> bool:
        """Tell whether a record is not held under its present mark."""
        with self._lock:
            held = self._held((wanted.user_id, wanted.id))
            return held is None or held.mark != wanted.mark

    def arrange(self, wanted: Sequence[Wanted]) -> Arranged:
        """Hold the first `max_size` that are wanted and nothing else, each in its tier; the second time nothing moves.

        What is wanted without its record is held if it is held already. A record that is dropped counts as outdated if
        it is wanted, or its owner's other records are, under another mark.
        """
        marks = {w.user_id: w.mark for w in wanted}
        with self._lock:
            before, aged = self._tiers(), replace(self.counts)
            self._age()
            present = self._tiers()
            kept: dict[Key, _Held] = {}
            for w in wanted[: self.max_size]:
                key = w.user_id, w.id
                held = present.get(key)
                if w.record is not None and fits(w.record):
                    kept[key] = _Held(w.record, w.mark, max(w.accesses, held.accesses if held else 0))
                elif w.record is None and held is not None and held.mark == w.mark:
                    kept[key] = held
                    held.accesses = max(w.accesses, held.accesses)
            dropped = [held for key, held in present.items() if key not in kept]
            for held in dropped:
                self._drop((held.record.user_id, held.record.id))
            for key, held in kept.items():
                if present.get(key) is not held or held.hot != (key in self._l1):
                    self._place(key, held)
            outdated = sum(marks.get(held.record.user_id, held.mark) != held.mark for held in dropped)
            self.counts.expiries += outdated
            self.counts.evictions += len(dropped) - outdated
            aged_out = [held for key, held in before.items() if key not in present]
            return Arranged(
                promoted=self.counts.promotions - aged.promotions,
                demoted=self.counts.demotions - aged.demotions,
                expired=self.counts.expiries - aged.expiries,
                evicted=len(dropped) - outdated,
                freed=sum(_size(held.record) for held in (*dropped, *aged_out)),
                held=len(kept),
            )

    def took(self, seconds: float) -> None:
        """Note how long a caller had to wait for a record, be it kept or read."""
        with self._lock:
            self.counts.timed += 1
            self.counts.seconds += seconds

    def sizes(self) -> tuple[int, int]:
        """Return how many records L1 and L2 hold."""
        with self._lock:
            self._age()
            return len(self._l1), len(self._l2)

    def __len__(self) -> int:
        return sum(self.sizes())

    def footprint(self) -> int:
        """Return the bytes that keys and records take."""
        with self._lock:
            held = self._tiers()
        return sum(sys.getsizeof(key) + _size(one.record) for key, one in held.items())

    def _tiers(self) -> dict[Key, _Held]:
        return {**self._l1, **self._l2}

    def _held(self, key: Key) -> _Held | None:
        return self._l1.get(key) or self._l2.get(key)

    def _drop(self, key: Key) -> None:
        self._l1.pop(key, None)
        self._l2.pop(key, None)

    def _place(self, key: Key, held: _Held) -> None:
        """Put a record into its tier, where its time begins anew."""
        was_in_l1, was_in_l2 = key in self._l1, key in self._l2
        self._drop(key)
        if held.hot:
            self._l1[key] = held
            self.counts.promotions += was_in_l2
        else:
            self._l2[key] = held
            self.counts.demotions += was_in_l1

    def _age(self) -> None:
        """Move what was in L1 for a day down, where it has to earn its way up again; drop what L2 has held too long."""
        self._now = self._timer()
        self.counts.expiries += len(self._l2.expire())
        for key, held in self._l1.expire():
            held.accesses = 0
            self._l2[key] = held
            self.counts.demotions += 1


def footprint(value: Any) -> int:
    """Return the bytes of a value and all it holds; a part that is held twice counts twice."""
    inner: Iterable[Any] = ()
    if isinstance(value, Mapping):
        inner = (*value, *value.values())
    elif isinstance(value, list | tuple | set):
        inner = value
    elif is_dataclass(value):
        inner = [getattr(value, f.name) for f in fields(value)]
    elif hasattr(value, "__dict__"):
        inner = vars(value).values()
    return sys.getsizeof(value) + sum(map(footprint, inner))


def _size(record: Record) -> int:
    return sys.getsizeof(record) + sum(map(sys.getsizeof, record))


def fits(record: Record) -> bool:
    """Tell whether a record is short enough to be kept."""
    return len(record.content) + len(record.metadata_json) <= MAX_CHARACTERS

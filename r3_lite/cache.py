"""Search answers kept for five minutes, and never served once any process has written for their user."""

import threading
import time
from collections.abc import Callable, Hashable
from typing import Any

from cachetools import TTLCache

SEARCH_SECONDS = 300.0


class SearchCache:
    """Bounded, thread-safe, measured. The key must hold the user's generation: a write makes old keys unreachable."""

    def __init__(self, max_size: int, timer: Callable[[], float] = time.monotonic) -> None:
        self._entries: TTLCache[Hashable, Any] = TTLCache(max(max_size, 0), SEARCH_SECONDS, timer)
        # cachetools is not thread-safe, and tools run on threads.
        self._lock = threading.Lock()
        self.hits = 0
        self.misses = 0

    def get(self, key: Hashable) -> Any | None:
        """Return the kept answer, or None."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                self.misses += 1
            else:
                self.hits += 1
            return found

    def put(self, key: Hashable, answer: Any) -> None:
        """Keep an answer for five minutes; nothing where the cache has size 0."""
        with self._lock:
            if self._entries.maxsize > 0:
                self._entries[key] = answer

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()

    def __len__(self) -> int:
        with self._lock:
            self._entries.expire()
            return len(self._entries)

    def stats(self) -> dict[str, int | str]:
        """Return entries, hits, misses and hit rate since the start of the process."""
        return {"size": len(self), "hits": self.hits, "misses": self.misses, "hit_rate": self.hit_rate()}

    def hit_rate(self) -> str:
        """Return the share of hits as text, "0.0%" before the first call."""
        calls = self.hits + self.misses
        return f"{100 * self.hits / calls if calls else 0.0:.1f}%"

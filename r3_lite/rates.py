"""How many adds, searches and deletes a user may make a minute: a sliding window, in the process."""

import math
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

from r3_lite.errors import RateLimitExceeded

WINDOW = 60.0
DOCUMENTED = {"add": 100, "search": 500, "delete": 50}
# What a call of a tool counts as; all other tools are free.
KINDS = {
    "add_memory": "add",
    "import_memories": "add",
    "search_memory": "search",
    "delete_memory": "delete",
    "delete_all_memories": "delete",
}
# Users whose windows are held before the empty ones are dropped.
_MANY = 1_000
_NUMBERS = re.compile(r"(add|search|delete)=([1-9]\d{0,8})")


def limits_of(setting: str) -> Mapping[str, int] | None:
    """Return the calls a minute by kind that a setting allows: {} for no limits, None where the transport decides.

    Raises ValueError for a text that is neither auto, on, off nor numbers such as "add=100,search=500"; a kind that
    is left out has its documented limit.
    """
    word = setting.strip().lower()
    if word in ("auto", "on", "off"):
        return {"auto": None, "on": DOCUMENTED, "off": {}}[word]
    found = [_NUMBERS.fullmatch(part.strip()) for part in word.split(",")]
    given = {match[1]: int(match[2]) for match in found if match}
    if len(given) != len(found):
        raise ValueError("is auto, on, off, or numbers such as add=100,search=500,delete=50")
    return {**DOCUMENTED, **given}


class RateLimits:
    """The calls of the last minute, by user and kind. Thread-safe."""

    def __init__(self, limits: Mapping[str, int] | None, timer: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._timer = timer
        self._lock = threading.Lock()
        self._calls: dict[tuple[str, str], deque[float]] = {}

    def spend(self, tool: str, user_id: str, *, networked: bool) -> None:
        """Count a call of a tool. Raises RateLimitExceeded, and counts nothing, when a user has made too many.

        `networked` tells whether the call came over HTTP, where the documented limits hold unless set otherwise.
        """
        limits = self._limits if self._limits is not None else DOCUMENTED if networked else {}
        kind = KINDS.get(tool)
        limit = limits.get(kind) if kind else None
        if kind is None or limit is None:
            return
        now = self._timer()
        with self._lock:
            calls = self._calls.setdefault((user_id, kind), deque())
            while calls and calls[0] <= now - WINDOW:
                calls.popleft()
            if len(calls) >= limit:
                wait = math.ceil(calls[0] + WINDOW - now)
                raise RateLimitExceeded(
                    f"Too many calls: at most {limit} of this kind a minute. Try again in {wait} seconds.",
                    limit=limit,
                    retry_after=wait,
                )
            calls.append(now)
            if len(self._calls) > _MANY:
                self._calls = {key: recent for key, recent in self._calls.items() if recent[-1] > now - WINDOW}

"""The line to Mem0: a client whose requests can be broken off at any moment, from a thread that waits for them."""

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from r3_lite.errors import ImportFailed, Mem0Failed

if TYPE_CHECKING:
    import httpx2

# How often, in seconds, it is asked whether to stop; how long what is broken off may take to let go.
_ASK_SECONDS, _LET_GO_SECONDS = 0.2, 1.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Line:
    """A client, and the event loop that runs while somebody waits for it. For one thread, without a loop of its own."""

    client: "httpx2.AsyncClient"
    _loop: asyncio.AbstractEventLoop
    _stopped: Callable[[], bool]
    _end: float

    def wait_for(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """Return what the work returns, or raise what it raises; TimeoutError after so many seconds; as `check`."""
        task = self._loop.create_task(work)
        end = time.monotonic() + seconds
        try:
            while True:
                left = end - time.monotonic()
                self._loop.run_until_complete(asyncio.wait({task}, timeout=max(0.0, min(left, _ASK_SECONDS))))
                if task.done():
                    return task.result()
                self.check()
                if left <= 0:
                    raise TimeoutError
        finally:
            if not task.done():
                task.cancel()
                _let_go(self._loop, task)

    def pause(self, seconds: float) -> None:
        """Wait. Raises as `check`."""
        self.wait_for(asyncio.sleep(seconds), math.inf)

    def check(self) -> None:
        """Raise ImportFailed when it shall stop, Mem0Failed when the time for all together is over."""
        if self._stopped():
            raise ImportFailed("The import was stopped before all had come from Mem0. Nothing was imported.")
        if time.monotonic() > self._end:
            raise Mem0Failed("Mem0 takes longer than an hour. Import an export in parts instead.")


@contextmanager
def open_line(client: "httpx2.AsyncClient", seconds: float, stopped: Callable[[], bool]) -> Iterator[Line]:
    """Give the block a line for so many seconds in all, and close the client at its end."""
    loop = asyncio.new_event_loop()
    try:
        yield Line(client, loop, stopped, time.monotonic() + seconds)
    finally:
        _let_go(loop, loop.create_task(client.aclose()))
        # Waits for nobody: a name that is being looked up is left to end by itself.
        loop.close()


def _let_go(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
    """Give what ends a moment for it; how it ends tells nothing any more."""
    loop.run_until_complete(asyncio.wait({task}, timeout=_LET_GO_SECONDS))
    if task.done() and not task.cancelled():
        task.exception()

"""The one background worker of a process: embeds and reads what the job table lists, and mends derived data."""

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import apsw
import filelock

from r3_lite import graph, history, jobs, similar, store, vectors
from r3_lite.accesses import Tally as Accesses
from r3_lite.clock import days_ago
from r3_lite.db import Database
from r3_lite.embed import Encoder
from r3_lite.errors import ModelUnavailable, R3Error, StorageBusy
from r3_lite.extract import Extraction, Method
from r3_lite.extractor import Extractor
from r3_lite.jobs import Job, Kind

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

# Jobs taken at once: large enough to sort by length, small enough that new memories are found within a second.
BATCH = 64
# Memories that the model runs over one after the other: in between, reading would cost it the processor's cache.
GROUP = 8
# How often a process looks for jobs that other processes left; its own adds wake it at once.
POLL_SECONDS = 0.25
# How long it lets the calls that follow an add go first.
SETTLE_SECONDS = 0.1
# How long counts of accesses may wait for the file.
FLUSH_SECONDS = 30.0
# How long one thread may compute while another waits for the interpreter. With Python's 5 ms an answer, which changes
# threads several times, waits for as many of them, and so does the model while what it said is read.
SWITCH_SECONDS = 0.0005
# A model that is missing may be put in place while the server runs.
RELOAD_SECONDS = 60.0
# How often old versions are looked for, where they are not kept for ever, and how many are removed at once.
EXPIRE_SECONDS = 3600.0
EXPIRE_BATCH = 500

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Result:
    """What was made of a memory outside any transaction, and what failed and why."""

    job: Job
    vectors: "Vectors | None" = None
    found: Extraction | None = None
    failed: dict[Kind, str] = field(default_factory=dict)


class Indexer:
    """Owns the thread. At any time one process per file works; a file lock says which, and dies with its owner.

    Everything it does can be done again: it may be killed between any two statements.
    """

    def __init__(
        self,
        database: Database,
        encoder: Encoder,
        extractor: Extractor,
        accesses: Accesses | None = None,
        *,
        history_days: int | None = None,
    ) -> None:
        self._database = database
        self._encoder = encoder
        self._extractor = extractor
        self._accesses = accesses or Accesses()
        self._history_days = history_days
        self._next_expiry = 0.0
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._start_lock = threading.Lock()
        # Held from reading a job to striking it: nothing is done twice by two threads.
        self._working = threading.Lock()
        self._thread: threading.Thread | None = None
        self._space: int | None = None
        self._to_mend: Literal["nothing", "counts", "everything"] = "counts"
        # The method by which memories read worse before have been entered to be read anew.
        self._method: Method | None = None
        self.last_error: str | None = None

    @property
    def space(self) -> int | None:
        """The space of the model in use, as soon as it is in the file. Reads only."""
        info = self._encoder.info
        if self._space is None and info is not None:
            with self._database.read() as connection:
                # Whether vectors can be had at all is known from the first connection on.
                if self._database.vector_error is None:
                    self._space = vectors.find_space(connection, info.fingerprint)
        return self._space

    def ensure_space(self) -> int | None:
        """Return the space of the model in use, entering it in the file at its first use (a write)."""
        info = self._encoder.info
        if self.space is None and info is not None and self._database.vector_error is None:
            with self._database.write() as connection:
                self._space = vectors.open_space(connection, info.name, info.dimension, info.fingerprint)
        return self._space

    def start(self) -> None:
        """Begin loading the model and working, in the background. Calling it again changes nothing."""
        with self._start_lock:
            if self._thread is None and (self._encoder.state != "off" or self._history_days is not None):
                sys.setswitchinterval(SWITCH_SECONDS)
                if self._encoder.state != "off":
                    self._encoder.load_in_background()
                    self._extractor.load_in_background()
                self._thread = threading.Thread(target=self._run, name="r3-indexer", daemon=True)
                self._thread.start()

    def wake(self) -> None:
        """Tell the worker that a job was committed."""
        self._wake.set()

    def mend(self) -> None:
        """Have the worker compare all derived data with the memories and repair what is out of step."""
        self._to_mend = "everything"
        self._wake.set()

    def stop(self, timeout: float = 2.0) -> None:
        """Ask the worker to end after its present batch and wait for it at most `timeout` seconds."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout)

    def index_now(self, memory: int) -> bool:
        """Do what one memory is owed in this thread; tell whether its vector and its entities are in the file.

        Raises ModelUnavailable when the model is not ready.
        """
        space = self.ensure_space()
        with self._working:
            with self._database.read() as connection:
                job = jobs.of_memory(connection, space, memory)
            return (job is None or self._do([job]) == 1) and space is not None

    def drain(self) -> int:
        """Do all work that is due and return for how many memories it was done.

        Much of it by two threads: while the model runs over a batch, the one before it is read and written.
        """
        if self._encoder.state == "ready":
            self.ensure_space()
        done = 0
        with contextlib.ExitStack() as stack:
            second: ThreadPoolExecutor | None = None
            writing: Future[int] | None = None
            taken: frozenset[int] = frozenset()
            while not self._stop.is_set():
                with self._working:
                    with self._database.read() as connection:
                        due = self._due(connection, BATCH + len(taken))
                    due = [job for job in due if job.memory not in taken][:BATCH]
                    if writing is None and len(due) <= GROUP:
                        if not due:
                            break
                        done += self._do(due)
                        continue
                    if second is None:
                        second = stack.enter_context(ThreadPoolExecutor(1, "r3-reader"))
                        stack.callback(second.submit, self._database.close)
                    method = self._extractor.method
                    reading = self._begin_all(due, second)
                done += writing.result() if writing is not None else 0
                writing = second.submit(self._write_read, reading, method) if due else None
                taken = frozenset(job.memory for job in due)
            done += writing.result() if writing is not None else 0
        return done

    def _run(self) -> None:
        waited_for_model = 0.0
        flush_at = time.monotonic() + FLUSH_SECONDS
        while not self._stop.is_set():
            if self._wake.wait(POLL_SECONDS):
                # An assistant often calls again at once: its next answer comes before the index.
                self._stop.wait(SETTLE_SECONDS)
            self._wake.clear()
            if self._stop.is_set():
                break
            if time.monotonic() >= flush_at:
                flush_at = time.monotonic() + FLUSH_SECONDS
                self._accesses.flush(self._database)
            if self._encoder.state == "unavailable":
                waited_for_model += POLL_SECONDS
                if waited_for_model >= RELOAD_SECONDS:
                    waited_for_model = 0.0
                    self._encoder.load_in_background()
            try:
                self._expire()
                # Without the model entities are read by rules all the same.
                if self._encoder.state in ("ready", "unavailable"):
                    self._work()
                self.last_error = None
            except R3Error as error:
                self.last_error = error.message
                if not isinstance(error, StorageBusy):
                    # Derived data that cannot be written may have lost a table.
                    self._to_mend = "counts"
                self._stop.wait(1.0)
        self._database.close()

    def _work(self) -> None:
        if not self._database.writable():
            return
        if self._encoder.state == "ready":
            self.ensure_space()
        with self._database.read() as connection:
            in_order = self._to_mend == "nothing" and self._method == self._extractor.method
            if in_order and not self._due(connection, 1):
                return
        with self._alone() as alone:
            if alone:
                self._mend()
                self.drain()

    def _expire(self) -> None:
        """Remove versions that are older than they are to be kept, in small transactions, every hour."""
        if self._history_days is None or time.monotonic() < self._next_expiry or not self._database.writable():
            return
        before = days_ago(self._history_days)
        with self._alone() as alone:
            while alone and not self._stop.is_set():
                with self._database.read() as connection:
                    if not history.has_expired(connection, before):
                        break
                with self._database.write() as connection:
                    history.expire(connection, before, EXPIRE_BATCH)
        self._next_expiry = time.monotonic() + EXPIRE_SECONDS

    def _due(self, connection: apsw.Connection, limit: int) -> list[Job]:
        # Without the model entities are read by rules all the same.
        return jobs.due(connection, self.space if self._encoder.state == "ready" else None, limit)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[bool]:
        """Hold the file's indexer lock during the block; tell whether it could be had."""
        path = self._database.path
        if path is None:
            yield True
            return
        lock = filelock.FileLock(path.with_name(path.name + ".indexer.lock"), mode=0o600)
        try:
            lock.acquire(blocking=False)
        except filelock.Timeout:
            yield False
            return
        except OSError as error:
            # Some network file systems have no locks: double work is harmless there.
            logger.debug("no indexer lock: %s", type(error).__name__)
        try:
            yield True
        finally:
            lock.release()

    def _mend(self) -> None:
        method = self._extractor.method
        if self._to_mend == "nothing" and self._method == method:
            return
        thorough, self._to_mend, self._method = self._to_mend == "everything", "nothing", method
        space, version = self.space, self._extractor.version_of(method)
        with self._database.read() as connection:
            sound = store.keyword_rows(connection) == store.rows(connection)
            unlearned = similar.missing(connection)
            astray = vectors.out_of_step(connection, space) if space is not None else 0
            unread = graph.unread(connection) + graph.outdated(connection, method, version)
            failed = jobs.counts(connection, space)["failed"]
        if sound and not (unlearned or astray or unread or failed or thorough):
            return
        with self._database.write() as connection:
            if not sound or not store.keyword_index_sound(connection):
                store.rebuild_keyword_index(connection)
            similar.learn_missing(connection)
            if space is not None:
                vectors.heal(connection, space)
            graph.owe_outdated(connection, method, version)
            jobs.retry_failed(connection, space)

    def _do(self, due: Sequence[Job]) -> int:
        """Embed and read outside any transaction, then write all in one. What fails is tried again later."""
        method = self._extractor.method
        return self._write([self._begin(job)() for job in due], method)

    def _begin_all(self, due: Sequence[Job], second: ThreadPoolExecutor) -> list[Future[list[_Result]]]:
        """Run the model over each memory; the rest of the work on each group of them is left to the second thread.

        Raises ModelUnavailable when the model is not ready, which is no fault of any memory's.
        """
        reading = []
        for start in range(0, len(due), GROUP):
            begun = self._encoder.spread(self._begin, due[start : start + GROUP])
            reading.append(second.submit(lambda begun: [finish() for finish in begun], begun))
        return reading

    def _write_read(self, reading: Sequence[Future[list[_Result]]], method: Method) -> int:
        return self._write([result for group in reading for result in group.result()], method)

    def _write(self, results: Sequence[_Result], method: Method) -> int:
        """Write what the method found in one transaction; return how many memories are complete with that."""
        space, version = self.space, self._extractor.version_of(method)
        with self._database.write() as connection:
            complete = 0
            for result in results:
                written = not result.failed
                if result.vectors is not None and space is not None:
                    chunks = [row.astype("<f4").tobytes() for row in result.vectors]
                    written &= vectors.store_vectors(connection, space, {result.job: chunks}) == 1
                if result.found is not None:
                    written &= graph.write(connection, result.job, result.found, method, version)
                for kind, reason in result.failed.items():
                    jobs.record_failure(connection, space, kind, result.job.memory, reason)
                complete += written
        return complete

    def _begin(self, job: Job) -> Callable[[], _Result]:
        """Run the model over a memory and return the rest of the work: one pass if it is owed both, else apart."""
        if job.embed and job.extract:
            try:
                finish = self._extractor.begin(job.content)
            except ModelUnavailable:
                raise
            except Exception as error:  # noqa: BLE001 - whatever a model raises becomes the job's last_error below
                logger.debug("one pass failed: %s", type(error).__name__)
            else:
                return lambda: self._finish(job, finish)
        done = self._apart(job)
        return lambda: done

    def _finish(self, job: Job, finish: "Callable[[], tuple[Vectors, Extraction]]") -> _Result:
        try:
            vectors, found = finish()
            return _Result(job, vectors, found)
        except Exception as error:  # noqa: BLE001 - as above
            logger.debug("one pass failed: %s", type(error).__name__)
            return self._apart(job)

    def _apart(self, job: Job) -> _Result:
        result = _Result(job)
        if job.embed:
            try:
                (result.vectors,) = self._encoder.embed_texts([job.content])
            except ModelUnavailable:
                raise
            except Exception as error:  # noqa: BLE001 - as above
                result.failed["embed"] = type(error).__name__
        if job.extract:
            try:
                result.found = self._extractor.extract(job.content)
            except Exception as error:  # noqa: BLE001 - as above
                result.failed["extract"] = type(error).__name__
        return result

"""The one background worker of a process: embeds what the job table lists, and mends derived data."""

import contextlib
import logging
import threading
from collections.abc import Iterator, Sequence
from typing import Literal

import filelock

from r3_lite import store, vectors
from r3_lite.db import Database
from r3_lite.embed import Encoder
from r3_lite.errors import ModelUnavailable, R3Error, StorageBusy
from r3_lite.vectors import Job

# Jobs taken at once: large enough to sort by length, small enough that new memories are found within a second.
BATCH = 64
# How often a process looks for jobs that other processes left; its own adds wake it at once.
POLL_SECONDS = 0.25
# A model that is missing may be put in place while the server runs.
RELOAD_SECONDS = 60.0

logger = logging.getLogger(__name__)


class Indexer:
    """Owns the thread. At any time one process per file embeds; a file lock says which, and dies with its owner.

    Everything it does can be done again: it may be killed between any two statements.
    """

    def __init__(self, database: Database, encoder: Encoder) -> None:
        self._database = database
        self._encoder = encoder
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._start_lock = threading.Lock()
        # Held from reading a job to striking it: nothing is embedded twice by two threads.
        self._embedding = threading.Lock()
        self._thread: threading.Thread | None = None
        self._space: int | None = None
        self._to_mend: Literal["nothing", "counts", "everything"] = "counts"
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
            if self._thread is None and self._encoder.state != "off":
                self._encoder.load_in_background()
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
        """Embed one memory in this thread; tell whether its vector is in the file.

        Raises ModelUnavailable when the model is not ready.
        """
        space = self.ensure_space()
        if space is None:
            return False
        with self._embedding:
            with self._database.read() as connection:
                job = vectors.job_for(connection, space, memory)
            return job is None or self._embed(space, [job]) == 1

    def drain(self) -> int:
        """Embed every job that is due and return how many were done. Needs the model ready."""
        space = self.ensure_space()
        done = 0
        while space is not None and not self._stop.is_set():
            with self._embedding:
                with self._database.read() as connection:
                    jobs = vectors.due_jobs(connection, space, BATCH)
                if not jobs:
                    break
                done += self._embed(space, jobs)
        return done

    def _run(self) -> None:
        waited_for_model = 0.0
        while not self._stop.is_set():
            self._wake.wait(POLL_SECONDS)
            self._wake.clear()
            if self._stop.is_set():
                break
            if self._encoder.state != "ready":
                waited_for_model += POLL_SECONDS
                if self._encoder.state == "unavailable" and waited_for_model >= RELOAD_SECONDS:
                    waited_for_model = 0.0
                    self._encoder.load_in_background()
                continue
            try:
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
        space = self.ensure_space()
        if space is None:
            return
        with self._database.read() as connection:
            if self._to_mend == "nothing" and not vectors.due_jobs(connection, space, 1):
                return
        with self._alone() as alone:
            if alone:
                self._mend(space)
                self.drain()

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

    def _mend(self, space: int) -> None:
        if self._to_mend == "nothing":
            return
        thorough, self._to_mend = self._to_mend == "everything", "nothing"
        with self._database.read() as connection:
            sound = store.keyword_rows(connection) == store.rows(connection)
            astray = vectors.out_of_step(connection, space)
            failed = vectors.coverage(connection, space)["failed"]
        if sound and not astray and not failed and not thorough:
            return
        with self._database.write() as connection:
            if not sound or not store.keyword_index_sound(connection):
                store.rebuild_keyword_index(connection)
            vectors.heal(connection, space)
            vectors.retry_failed(connection, space)

    def _embed(self, space: int, jobs: Sequence[Job]) -> int:
        """Embed outside any transaction, then write all in one. What fails is tried alone, then later."""
        done: dict[Job, list[bytes]] = {}
        failed: dict[Job, str] = {}
        try:
            done = self._vectors(jobs)
        except ModelUnavailable:
            raise
        except Exception as batch_error:  # noqa: BLE001 - whatever a model raises becomes the job's last_error
            logger.debug("batch failed: %s", type(batch_error).__name__)
            for job in jobs:
                try:
                    done |= self._vectors([job])
                except Exception as error:  # noqa: BLE001 - as above
                    failed[job] = type(error).__name__
        with self._database.write() as connection:
            written = vectors.store_vectors(connection, space, done)
            for job, reason in failed.items():
                vectors.record_failure(connection, space, job.memory, reason)
        return written

    def _vectors(self, jobs: Sequence[Job]) -> dict[Job, list[bytes]]:
        arrays = self._encoder.embed_texts([job.content for job in jobs])
        return {job: [row.astype("<f4").tobytes() for row in rows] for job, rows in zip(jobs, arrays, strict=True)}

"""The memory itself: owns the file, the model, the worker and the cache, and does what each tool asks."""

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import apsw

from r3_lite import history, jobs, merging, recover, store, transfer, vectors
from r3_lite.accesses import Tally as Accesses
from r3_lite.answer import Found, answer
from r3_lite.cache import AnswerCache, RecordCache
from r3_lite.codes import HeldCodes
from r3_lite.db import Database
from r3_lite.embed import Encoder
from r3_lite.errors import InvalidParameters, R3Error, StorageError
from r3_lite.extractor import Extractor
from r3_lite.filters import compile_filter
from r3_lite.history import Version
from r3_lite.indexer import Indexer
from r3_lite.limits import check_content, check_metadata, check_query, check_user_id
from r3_lite.settings import Settings
from r3_lite.store import Added, NewMemory, Record
from r3_lite.transfer import Tally

# How long an add that shall wait for its vector waits for the model to load.
MODEL_PATIENCE = 30.0
# How long a search does.
LOADING_PATIENCE = 1.5

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stored:
    """What an add came to, whether its vector is in the file already, and whether a cache tier took the memory in.

    `differs`: the text was known, and the metadata or priority given with it are not those of the known memory, which
    stays as it is.
    """

    added: Added
    indexed: bool
    cached: bool
    differs: bool


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a user's memories, newest first, and how many there are in all."""

    records: tuple[Record, ...]
    total: int


class How(TypedDict, total=False):
    """How to import, see `transfer.import_items`. Left out: priority high, no known texts, 50 at a time."""

    priority: str
    skip_duplicates: bool
    batch_size: int
    revive: bool
    progress: Callable[[int, int], None]
    stopped: Callable[[], bool]


class Engine:
    """Thread-safe. Nothing is opened before the first call that needs it; `close` need not be called for safety."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.started = time.monotonic()
        self.database = Database(
            None if settings.demo else settings.db_path,
            synchronous=settings.synchronous,
            journal_mode=settings.journal_mode,
            busy_timeout=settings.busy_timeout,
        )
        self.encoder = Encoder(
            settings.embedding_model,
            cache_dir=settings.model_cache,
            threads=settings.threads,
            enabled=settings.intelligence == "full",
        )
        self.extractor = Extractor(self.encoder, settings.entity_model)
        self.accesses = Accesses()
        self.indexer = Indexer(
            self.database,
            self.encoder,
            self.extractor,
            self.accesses,
            history_days=settings.history_retention_days,
        )
        self.records = RecordCache(settings.cache_max_size)
        # Finished answers of the tools that search and list.
        self.answers = AnswerCache(min(settings.cache_max_size, 256))
        self.codes = HeldCodes()
        self.previews = merging.Previews()
        # Graphs as `knowledge` holds them in memory, of the users who asked last.
        self.networks = AnswerCache(4)

    def start(self) -> None:
        """Load the model and begin to index in the background. Returns at once; repeated calls change nothing."""
        self.indexer.start()

    def close(self) -> None:
        """End the worker, leave the file complete without its log, and close this thread's connection."""
        self.indexer.stop()
        self.accesses.flush(self.database)
        if self.database.open_connections():
            # Whichever thread this is: without a connection of its own it could not move the log.
            with contextlib.suppress(StorageError):
                self.database.connection()
        self.database.close()

    def user(self, user_id: str | None) -> str:
        """Return the user to act for: the one given, else the configured default."""
        return check_user_id(user_id if user_id is not None else self.settings.user_id)

    def add(
        self,
        user_id: str | None,
        content: str,
        *,
        metadata: dict[str, Any] | None = None,
        priority: str = "medium",
        wait: bool = False,
        check_duplicates: bool = True,
    ) -> Stored:
        """Commit a memory, its keyword index and its job; with `wait` its vector too, where the model can be had.

        Raises InvalidParameters for text or metadata outside the limits, StorageError when nothing was stored.
        """
        new = NewMemory(self.user(user_id), check_content(content), check_metadata(metadata or {}), priority=priority)
        self._ensure_space()
        with self.database.write() as connection:
            added = store.insert(connection, new, check_duplicates=check_duplicates)
            record = store.find(connection, new.user_id, added.id)
            mark = store.edits(connection, new.user_id)
        cached = not added.duplicate and self.records.put(record, mark)
        differs = added.duplicate and (
            not new.metadata.items() <= record.metadata.items() or priority not in ("medium", record.priority)
        )
        self.start()
        self.indexer.wake()
        indexed = self._index_now(added.seq) if wait else self._is_indexed(added.seq)
        return Stored(added, indexed, cached, differs)

    def get(self, user_id: str | None, memory_id: str) -> Record:
        """Return one memory whole, from the cache where it is there as it is in the file. Raises MemoryNotFound."""
        began = time.perf_counter()
        user = self.user(user_id)
        with self.database.read() as connection:
            mark = store.edits(connection, user)
            record = self.records.get(user, memory_id, mark)
            if record is None:
                record = store.find(connection, user, memory_id)
                self.records.put(record, mark, accesses=1)
        self.accesses.note(record.seq)
        self.records.took(time.perf_counter() - began)
        return record

    def generation(self, user_id: str) -> int:
        """Return the mark of whole answers to a user: it moves with every write that can change one."""
        with self.database.read() as connection:
            return store.generation(connection, user_id)

    def update(
        self,
        user_id: str | None,
        memory_id: str,
        *,
        content: str | None = None,
        metadata: dict[str, Any] | None = None,
        priority: str | None = None,
    ) -> Record:
        """Change what is given of one memory. Raises MemoryNotFound, InvalidParameters when nothing is given."""
        if content is None and metadata is None and priority is None:
            raise InvalidParameters("Nothing to change. Give content, metadata or priority.")
        if content is not None:
            check_content(content)
        with self.database.write() as connection:
            record = store.update(
                connection,
                self.user(user_id),
                memory_id,
                content=content,
                metadata=check_metadata(metadata) if metadata is not None else None,
                priority=priority,
            )
            check_metadata(record.metadata)
            mark = store.edits(connection, record.user_id)
        self.records.put(record, mark, accesses=1)
        self.accesses.note(record.seq)
        self.start()
        self.indexer.wake()
        return record

    def search(
        self,
        user_id: str | None,
        query: str,
        *,
        limit: int = 10,
        metadata_filter: Mapping[str, Any] | None = None,
        threshold: float = 0.0,
    ) -> Found:
        """Return the user's memories that answer a query best, by meaning and keywords.

        While the model is not ready the answer comes from keywords. If one of the two ways fails, the other
        answers with a warning; if both fail, StorageError is raised. Reads only.
        """
        check_query(query)
        self.start()
        user = self.user(user_id)
        where = compile_filter(metadata_filter)
        if self.encoder.state == "loading":
            # The bundled model takes about a second, and the first question is worth it.
            self.encoder.wait_ready(LOADING_PATIENCE)
        return answer(self, user, query, where, limit=limit, threshold=threshold)

    def page(
        self,
        user_id: str | None,
        *,
        limit: int,
        offset: int,
        metadata_filter: Mapping[str, Any] | None = None,
    ) -> Page:
        """Return one page of the user's memories, newest first."""
        with self.database.read() as connection:
            total, records = store.page(connection, self.user(user_id), limit, offset, compile_filter(metadata_filter))
        return Page(tuple(records), total)

    def delete(self, user_id: str | None, memory_id: str) -> Record:
        """Remove one memory and return what it was. Raises MemoryNotFound and then removes nothing."""
        with self.database.write() as connection:
            record = store.delete(connection, self.user(user_id), memory_id)
        self.records.forget(record.user_id, record.id)
        return record

    def delete_all(self, user_id: str | None, *, confirm: bool) -> int:
        """Return how many memories the user has and, with `confirm`, remove them all in one transaction."""
        user = self.user(user_id)
        if not confirm:
            with self.database.read() as connection:
                return store.count(connection, user)
        with self.database.write() as connection:
            count = store.delete_all(connection, user)
        self.records.forget(user)
        return count

    def history(self, user_id: str | None, memory_id: str, limit: int) -> tuple[int, list[Version]]:
        """Return how many versions a memory has, deleted or not, and its newest `limit`, oldest first."""
        with self.database.read() as connection:
            return history.versions(connection, self.user(user_id), memory_id, limit)

    def restore(
        self, user_id: str | None, memory_id: str, *, version: int | None = None, as_copy: bool = False
    ) -> Record:
        """Bring a deleted, merged or overwritten memory back (`recover.restore`); vectors follow in the background."""
        self._ensure_space()
        with self.database.write() as connection:
            record = recover.restore(connection, self.user(user_id), memory_id, version=version, as_copy=as_copy)
        self.start()
        self.indexer.wake()
        return record

    def duplicates(self, user_id: str | None, threshold: float) -> merging.Plan:
        """Return what says the same among the user's memories, and what looks alike; the live run does just that."""
        user = self.user(user_id)
        found = merging.plan(self.database, user, threshold)
        self.previews.keep(user, threshold, found)
        return found

    def merge_duplicates(self, user_id: str | None, threshold: float) -> tuple[merging.Plan, merging.Merged]:
        """Merge what the last preview showed (of the last hour, else what there is now), and return both."""
        user = self.user(user_id)
        planned = self.previews.take(user, threshold) or merging.plan(self.database, user, threshold)
        return planned, merging.carry_out(self.database, user, planned)

    def import_file(self, user_id: str | None, path: str, **how: Unpack[How]) -> Tally:
        """Import a file of the folders that may be read, as `import_records` does."""
        stopped = how.get("stopped", lambda: False)
        return self.import_records(user_id, transfer.read_file(path, self.settings.import_roots, stopped), **how)

    def import_mem0(
        self,
        user_id: str | None,
        api_key: str | None = None,
        *,
        told: Callable[[int], None] = lambda count: None,
        **how: Unpack[How],
    ) -> Tally:
        """Import what Mem0 remembers of the user of this name; `told` hears how much has come.

        The key is the one given, else the configured one. Blocks on the network before anything is stored.
        """
        from r3_lite import mem0

        configured = self.settings.mem0_api_key
        key = api_key if api_key is not None else configured.get_secret_value() if configured else None
        stopped = how.get("stopped", lambda: False)
        fetched = mem0.fetch(self.settings.mem0_base_url, key, self.user(user_id), stopped=stopped, told=told)
        tally = self.import_records(user_id, fetched.records, **how)
        tally.total += fetched.repeated
        tally.duplicates += fetched.repeated
        tally.incomplete = not fetched.complete
        return tally

    def import_records(self, user_id: str | None, records: Sequence[Any], **how: Unpack[How]) -> Tally:
        """Import what `formats.records` returned for one user; vectors follow in the background."""
        self._ensure_space()
        chosen: How = {"priority": "high", "skip_duplicates": True, "batch_size": 50, **how}
        # The worker need not wait for the last item.
        self.start()
        tally = transfer.import_items(self.database, records, user_id=self.user(user_id), **chosen)
        self.indexer.wake()
        return tally

    def cache_stats(self) -> dict[str, Any]:
        """Return hits, misses, rate and evictions of all caches of this process, and how many memories they hold."""
        total = self.records.counts + self.answers.counts + self.networks.counts
        l1_size, l2_size = self.records.sizes()
        return {
            "hits": total.hits,
            "misses": total.misses,
            "hit_rate": total.hit_rate,
            "size": l1_size + l2_size,
            "max_size": self.records.max_size,
            "l1_size": l1_size,
            "l2_size": l2_size,
            "evictions": total.evictions,
        }

    def pending(self) -> tuple[dict[str, int], list[jobs.JobState]]:
        """Return the counts of unfinished work and its first jobs, oldest first; none where work is switched off."""
        space = self.indexer.space
        with self.database.read() as connection:
            off = self.encoder.state == "off"
            return self.coverage(connection), [] if off else jobs.states(connection, space, limit=20)

    def coverage(self, connection: apsw.Connection) -> dict[str, int]:
        """Return {pending, failed, without_vector} over all users, in the caller's transaction.

        A model that was never loaded has no jobs in the file yet: every memory without a vector is pending then.
        Where the model is switched off nothing is.
        """
        space = self.indexer.space
        counts = jobs.counts(connection, space)
        bare = vectors.without_vector(connection, space)
        if self.encoder.state == "off":
            counts = {"pending": 0, "failed": 0}
        elif space is None:
            counts["pending"] = bare
        return {**counts, "without_vector": bare}

    def _ensure_space(self) -> None:
        """Enter the model in the file before the first memory, so that the memory's job is committed with it."""
        if self.encoder.state != "off":
            self.indexer.ensure_space()

    def _index_now(self, seq: int) -> bool:
        if self.encoder.state == "off":
            return True
        if not self.encoder.wait_ready(MODEL_PATIENCE):
            return False
        try:
            return self.indexer.index_now(seq)
        except R3Error as error:
            # The memory is stored; its vector is owed and the job table says so.
            logger.warning("indexing is put off: %s", error.message)
            return False

    def _is_indexed(self, seq: int) -> bool:
        """Tell whether nothing is owed to a memory any more."""
        if self.encoder.state == "off":
            return True
        with self.database.read() as connection:
            space = self.indexer.space
            owed = jobs.of_memory(connection, space, seq)
            return owed is None and space is not None and vectors.is_indexed(connection, space, seq)

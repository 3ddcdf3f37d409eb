"""What cache_stats reports and optimize_cache does. Both read the file only."""

import time
from collections.abc import Mapping

from r3_lite import accesses, store
from r3_lite.cache import AnswerCache, RecordCache, Wanted, fits
from r3_lite.engine import Engine
from r3_lite.models import CacheReport, CacheStats, MostUsed

# Memories listed as the most used ones.
TOP = 10
# Memories read at once: each may have a megabyte.
_BATCH = 100


def statistics(engine: Engine, load: Mapping[str, int]) -> CacheStats:
    """Return what the caches of this process did and hold, and the most used memories of the configured user.

    `load` tells how many other calls are running and waiting.
    """
    caches: dict[str, RecordCache | AnswerCache] = {
        "records": engine.records,
        "answers": engine.answers,
        "graphs": engine.networks,
    }
    bytes_held = {name: cache.footprint() for name, cache in caches.items()}
    counts = {name: cache.counts for name, cache in caches.items()}
    timed = sum(count.timed for count in counts.values())
    seconds = sum(count.seconds for count in counts.values())
    with engine.database.read() as connection:
        used = accesses.ranked(connection, TOP, engine.accesses.pending(), engine.user(None))
    active = load["running"] + 1
    return CacheStats(
        **engine.cache_stats(),
        memory_usage=sum(bytes_held.values()),
        avg_response_time=round(1000 * seconds / timed, 3) if timed else 0.0,
        connection_pool={
            "active": active,
            "idle": max(engine.database.open_connections() - active, 0),
            "waiting": load["waiting"],
        },
        top_accessed=[MostUsed(id=memory.id, accesses=memory.accesses) for memory in used if memory.accesses],
        parts={
            name: {
                "hits": count.hits,
                "misses": count.misses,
                "evictions": count.evictions,
                "expiries": count.expiries,
                "promotions": count.promotions,
                "demotions": count.demotions,
                "size": len(caches[name]),
                "bytes": bytes_held[name],
            }
            for name, count in counts.items()
        },
    )


def optimize(engine: Engine, *, force_refresh: bool, max_memories: int) -> CacheReport:
    """Fill the tiers with the memories most worth it, of all users, and drop the others; a repetition moves nothing.

    With `force_refresh` all of them are read anew, and finished answers and graphs are forgotten.
    """
    began = time.perf_counter()
    if force_refresh:
        engine.answers.clear()
        engine.networks.clear()
    with engine.database.read() as connection:
        limit = min(max_memories, engine.records.max_size)
        chosen = accesses.ranked(connection, limit, engine.accesses.pending())
        wanted = {m.seq: Wanted(m.user_id, m.id, m.edits, m.accesses) for m in chosen}
        missing = [seq for seq, one in wanted.items() if force_refresh or engine.records.lacks(one)]
        for start in range(0, len(missing), _BATCH):
            read = store.fetch(connection, missing[start : start + _BATCH])
            wanted |= {seq: wanted[seq]._replace(record=record) for seq, record in read.items() if fits(record)}
    arranged = engine.records.arrange(list(wanted.values()))
    return CacheReport(
        promoted=arranged.promoted,
        demoted=arranged.demoted,
        expired=arranged.expired,
        evicted=arranged.evicted,
        duration=round(time.perf_counter() - began, 4),
        memory_freed=arranged.freed,
        cached=arranged.held,
        message=f"{arranged.held} memories are at hand.",
    )

"""How results read: one compact text per tool for the model, and lists that stay under one ceiling. Pure."""

import json
import re
from collections.abc import Callable, Collection, Sequence
from itertools import accumulate, islice
from typing import Any, TypeVar

from pydantic import BaseModel

from r3_lite.answer import Found
from r3_lite.models import (
    AddResult,
    CacheReport,
    CacheStats,
    DeleteAllResult,
    DeleteResult,
    Health,
    HistoryEntry,
    HistoryResult,
    ImportResult,
    Memory,
    MemoryPage,
    SearchHit,
    SearchResult,
    SyncStatus,
    UpdateResult,
)
from r3_lite.search import WEAK

# Characters of text and structured content together in the answer of a list, and what the frame around it takes.
CEILING = 40_000
FRAME = 1_000
# What a memory is shortened to, at the most, in a list that would grow too long, and its metadata there.
SHORT_CONTENT = 400
SHORT_METADATA = 600
_SHORT_VALUE = 60
# Places of each term of a query that a long text may be shortened to.
_PLACES_TRIED = 20
# The structured part names a text twice (memory, content), the readable part once.
_COPIES = 3
# Ids, dates, names of fields and scores of one memory or version.
_OVERHEAD = 600

M = TypeVar("M", bound=Memory)
B = TypeVar("B", bound=BaseModel)


def fit(memories: Sequence[M], terms: Collection[str] = ()) -> tuple[list[M], bool]:
    """Return as many memories as stay under the ceiling and whether anything was cut: nothing if all have room.

    Where they have not, long texts are shortened to the place that holds the most of the `terms` (lower case), or to
    their beginning; "…" stands for what is left out. Large metadata keeps small values only. Either is marked by
    `_truncated` in the metadata. At least one memory is returned.
    """
    if sum(map(_at_most, memories)) <= CEILING - FRAME:
        return list(memories), False
    return _fit(memories, _block, lambda memory, room: _shortened(memory, room, terms))


def _at_most(memory: Memory) -> int:
    """Return a length that a memory surely stays under, without writing it out: JSON takes 6 characters for one."""
    return 6 * (_COPIES * len(memory.content) + 2 * len(str(memory.metadata))) + _OVERHEAD


def fit_versions(versions: Sequence[HistoryEntry]) -> tuple[list[HistoryEntry], bool]:
    """Return the newest versions that stay under the ceiling, in the order given, and whether anything was cut."""
    kept, cut = _fit(versions[::-1], _version, _shortened_version)
    return kept[::-1], cut


def _fit(items: Sequence[B], text: Callable[[B], str], shortened: Callable[[B, int], B]) -> tuple[list[B], bool]:
    def size(item: B) -> int:
        return _length(item.model_dump()) + _length(text(item))

    room = CEILING - FRAME
    # Stops at the first sum that is too large: there may be many, and each long.
    if all(total <= room for total in accumulate(map(size, items))):
        return list(items), False
    share = max(SHORT_CONTENT, (room // len(items) - _OVERHEAD) // _COPIES)
    kept: list[B] = []
    for item in items:
        short = shortened(item, share)
        room -= size(short)
        if kept and room < 0:
            break
        kept.append(short)
    return kept, True


def _length(value: Any) -> int:
    """Return the characters that a value takes as JSON."""
    return len(json.dumps(value, ensure_ascii=False))


def _shortened(memory: M, room: int, terms: Collection[str]) -> M:
    content, metadata = _short_text(memory.content, room, terms), _short_metadata(memory.metadata)
    if content == memory.content and metadata == memory.metadata:
        return memory
    return memory.model_copy(
        update={"content": content, "memory": content, "metadata": {**metadata, "_truncated": True}}
    )


def _shortened_version(entry: HistoryEntry, room: int) -> HistoryEntry:
    content, metadata = _short_text(entry.content, room), _short_metadata(entry.metadata)
    return entry.model_copy(update={"content": content, "metadata": metadata})


def _short_text(text: str, room: int, terms: Collection[str] = ()) -> str:
    """Return the text, or as much of one place in it as takes `room` characters as JSON, if spread evenly."""
    if len(text) <= room and _length(text) <= room:
        return text
    start = _best_place(text, room - 4, terms) if terms else 0
    place = text[start : start + room - 4]
    kept = place[: (room - 4) * len(place) // max(_length(place) - 2, 1)]
    return ("…" if start else "") + kept + ("…" if start + len(kept) < len(text) else "")


def _best_place(text: str, room: int, terms: Collection[str]) -> int:
    """Return where the stretch of text begins that holds the most of the terms, the first of such; else 0.

    A stretch begins some words before a term. Of a frequent term the first places are tried.
    """
    lower = text.lower()
    places = [m.start() for term in terms for m in islice(re.finditer(re.escape(term), lower), _PLACES_TRIED)]
    starts = sorted({max(0, min(place - room // 4, len(text) - room)) for place in places})
    return max(starts, key=lambda start: sum(term in lower[start : start + room // 2] for term in terms), default=0)


def _short_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    if _length(metadata) <= SHORT_METADATA:
        return metadata
    small = [item for item in metadata.items() if isinstance(item[1], int | float | str)]
    return dict([(key, value) for key, value in small if len(key) + len(str(value)) <= _SHORT_VALUE][:8])


def search_message(found: Found, returned: int, hits: int, truncated: bool, limit: int) -> str:
    """Return the first line of a search answer; an empty one says why it may be empty."""
    notes = [found.warning] if found.warning else []
    if found.note:
        notes.append(found.note)
    if limit > 100:
        notes.append("limit is at most 100.")
    if truncated:
        left_out = f" and {hits - returned} left out" if hits > returned else ""
        notes.append(f"Long memories are shortened{left_out}: use get_memory, or a smaller limit.")
    if returned:
        return " ".join([f"{returned} of {found.total} memories.", *notes])
    if found.total:
        below = f"; {found.ranking.below} candidates were too weak" if found.ranking.below else ""
        reason = f"None of this user's {found.total} memories answers{below}. Try other words, or a wider filter."
    elif found.others:
        reason = f"This user has no memories yet, but {found.others} other user(s) have: is user_id right?"
    else:
        reason = "Nothing is stored yet. Use add_memory to remember something."
    return "\n".join(["No memories found", " ".join([reason, *notes])])


def page_message(total: int, offset: int, returned: int, truncated: bool, limit: int) -> str:
    """Return the first line of a list: what is shown, of how many, and where the next page starts."""
    if not returned:
        return "No memories found" + (f"\nThere are {total}; offset is beyond the last." if total else "")
    notes = [f"Memories {offset + 1} to {offset + returned} of {total}, newest first."]
    if offset + returned < total:
        notes.append(f"Next page: offset {offset + returned}.")
    if limit > 500:
        notes.append("limit is at most 500.")
    if truncated:
        notes.append("Long ones are shortened; get_memory shows them whole.")
    return " ".join(notes)


def history_message(memory_id: str, total: int, shown: Sequence[HistoryEntry], cut: bool, limit: int) -> str:
    """Return the first line of a history: how many versions are shown, of how many, and how one is brought back."""
    notes = [f"{len(shown)} of {total} versions, oldest first."]
    newest = shown[-1]
    if newest.version > total:
        notes.append(f"{newest.version - total} older ones are no longer kept.")
    if limit > 500:
        notes.append("limit is at most 500.")
    if cut:
        notes.append("Long ones are shortened or left out: ask with a smaller limit.")
    gone = newest.action in ("deleted", "merged")
    if gone or total > 1:
        way = "add_memory with its text, metadata and priority" if gone else "update_memory with its text"
        notes.append(f"To bring one back: {way}, or the command r3-lite restore-memory {memory_id} --version N.")
    return " ".join(notes)


def add_message(duplicate: bool, differs: bool, demo: bool = False) -> str:
    """Return what add_memory says; `differs`: the known memory has other metadata or another priority."""
    lines = ["Already saved" if duplicate else "Saved"]
    if duplicate and differs:
        lines.append("Its metadata and priority stay as they were: update_memory changes them.")
    if demo:
        lines.append("This is a demo: it is kept in memory only and is gone when the server ends.")
    return "\n".join(lines)


def added(result: AddResult) -> str:
    """Text of add_memory."""
    lines = [result.message, f"id: {result.memory_id}"]
    if result.indexing == "pending":
        lines.append("Found by keyword now, by meaning as soon as it is embedded.")
    if result.similar:
        lines.append("Similar memories (update or delete one that this corrects):")
        lines += [f"- {s.id} ({s.score:.2f}): {line(s.memory)}" for s in result.similar]
    return "\n".join(lines)


def memory(result: Memory) -> str:
    """Text of get_memory: the whole content, as it is."""
    return f"{_head(result)}\n{result.content}"


def updated(result: UpdateResult) -> str:
    """Text of update_memory."""
    return f"{result.message}\n{memory(result)}"


def searched(result: SearchResult) -> str:
    """Text of search_memory."""
    return "\n\n".join([result.message, *map(_hit, result.results)])


def listed(result: MemoryPage) -> str:
    """Text of get_all_memories."""
    return "\n\n".join([result.message, *map(_block, result.memories)])


def deleted(result: DeleteResult | DeleteAllResult) -> str:
    """Text of delete_memory and delete_all_memories."""
    return result.message


def history(result: HistoryResult) -> str:
    """Text of get_memory_history."""
    return "\n".join([result.message, *map(_version, result.history)])


def imported(result: ImportResult) -> str:
    """Text of import_memories."""
    return "\n".join([result.message, *(f"- item {e.index}: {e.reason}" for e in result.errors)])


def synced(result: SyncStatus) -> str:
    """Text of sync_status."""
    lines = [f"- {j.memory_id}: {j.kind}, {j.attempts} attempts {j.last_error}".rstrip() for j in result.jobs]
    return "\n".join([result.message, *lines])


def cache(result: CacheStats) -> str:
    """Text of cache_stats."""
    pool = result.connection_pool
    lines = [
        f"{result.hit_rate} of {result.hits + result.misses} questions were answered from memory, "
        f"in {result.avg_response_time:.2f} ms on average.",
        f"memories: {result.size} of at most {result.max_size} ({result.l1_size} hot, {result.l2_size} others), "
        f"{result.memory_usage:,} bytes, {result.evictions} evicted",
        f"connections: {pool['active']} active, {pool['idle']} idle; {pool['waiting']} calls waiting",
    ]
    lines += [f"- {used.id}: {used.accesses} accesses" for used in result.top_accessed]
    return "\n".join(lines)


def optimized(result: CacheReport) -> str:
    """Text of optimize_cache."""
    return result.message


def healthy(result: Health) -> str:
    """Text of health_check."""
    database, index, model = result.database, result.index, result.model
    return "\n".join(
        [
            f"{result.status}: {result.next_step}",
            f"file: {database['path']} ({database['size']:,} bytes, {database['journal_mode']}, "
            f"{database['free'] // 1_000_000:,} MB free, schema {database['schema_version']}, "
            f"integrity {database['integrity']}, "
            f"{'writable' if database['writable'] else 'not writable at the moment'})",
            f"memories: {result.counts['memories']} of {result.counts['users']} users; "
            f"{index['pending']} pending, {index['failed']} failed, {index['without_vector']} without vector",
            f"model: {model['name']} ({model['dimension']}), {model['state']} {model['last_error']}".rstrip(),
            f"graph: {result.graph['entities']} entities, {result.graph['relations']} relations; "
            f"found by {result.graph['method']}",
            f"r3-lite {result.version}, up {result.uptime:.0f} s, {result.memory['rss'] // 1_000_000} MB resident",
        ]
    )


def _hit(hit: SearchHit) -> str:
    weak = " (weak)" if hit.score < WEAK else ""
    return f"[{hit.score:.2f}{weak}] {_block(hit)}"


def _block(memory: Memory) -> str:
    # Indented, so that no line of a text can be taken for the head of another memory.
    return _head(memory) + "\n" + memory.content.replace("\n", "\n  ")


def _head(memory: Memory) -> str:
    changed = f", updated {memory.updated_at[:16]}Z" if memory.updated_at != memory.created_at else ""
    extras: dict[str, Any] = {key: value for key, value in memory.metadata.items() if key != "_truncated"}
    if memory.priority != "medium":
        extras = {**extras, "priority": memory.priority}
    more = f" {json.dumps(extras, ensure_ascii=False)}" if extras else ""
    return f"{memory.id} · {memory.created_at[:16]}Z{changed}{more}"


def _version(entry: HistoryEntry) -> str:
    more = "" if entry.priority == "medium" else f" {entry.priority}"
    more += f" {json.dumps(entry.metadata, ensure_ascii=False)}" if entry.metadata else ""
    content = entry.content.replace("\n", "\n  ")
    return f"{entry.version}. {entry.action} {entry.timestamp}{more}: {content}"


def line(text: str, room: int = 160) -> str:
    """Return the text on one line, shortened to `room` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= room else flat[: room - 1] + "…"

"""How results read: one compact text per tool for the model, and lists that stay under one ceiling. Pure."""

import json
from collections.abc import Sequence
from typing import Any, TypeVar

from r3_lite.engine import Found
from r3_lite.models import (
    AddResult,
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

# Characters of text and structured content together in the answer of a list.
CEILING = 40_000
# What a memory is shortened to in a list that would grow too long, and what its metadata may take there.
SHORT_CONTENT = 400
SHORT_METADATA = 600
# The structured part names a text twice (memory, content), the readable part once.
_COPIES = 3
_FRAME = 600

M = TypeVar("M", bound=Memory)


def fit(memories: Sequence[M]) -> tuple[list[M], bool]:
    """Return as many memories as stay under the ceiling, long ones shortened, and whether anything was cut.

    Shortened texts end in "…" and carry `_truncated` in their metadata. At least one memory is returned.
    """
    room = CEILING // max(len(memories), 1) - _FRAME
    content_room = max(SHORT_CONTENT, room // _COPIES)
    kept: list[M] = []
    used = 0
    cut = False
    for memory in memories:
        short = _shortened(memory, content_room)
        cut = cut or short is not memory
        used += len(json.dumps(short.model_dump(), ensure_ascii=False)) + len(_block(short))
        if kept and used > CEILING:
            return kept, True
        kept.append(short)
    return kept, cut


def _shortened(memory: M, content_room: int) -> M:
    content, metadata = memory.content, memory.metadata
    if len(json.dumps(metadata, ensure_ascii=False)) > SHORT_METADATA:
        metadata = {k: v for k, v in metadata.items() if isinstance(v, int | float | str) and len(str(v)) <= 60}
        metadata = dict(list(metadata.items())[:8])
    if len(content) > content_room:
        content = content[: content_room - 1] + "…"
    if content == memory.content and metadata == memory.metadata:
        return memory
    return memory.model_copy(
        update={"content": content, "memory": content, "metadata": {**metadata, "_truncated": True}}
    )


def fit_versions(versions: Sequence[HistoryEntry]) -> tuple[list[HistoryEntry], bool]:
    """Return the newest versions that stay under the ceiling, long texts shortened, and whether anything was cut."""
    room = max(SHORT_CONTENT, (CEILING // max(len(versions), 1) - _FRAME) // 2)
    kept: list[HistoryEntry] = []
    used = 0
    cut = False
    for version in reversed(versions):
        short = version
        if len(version.content) > room:
            short = version.model_copy(update={"content": version.content[: room - 1] + "…"})
            cut = True
        used += len(json.dumps(short.model_dump(), ensure_ascii=False)) + len(_version(short))
        if kept and used > CEILING:
            return kept[::-1], True
        kept.append(short)
    return kept[::-1], cut


def search_message(found: Found, returned: int, hits: int, truncated: bool, limit: int) -> str:
    """Return the first line of a search answer; an empty one says why it may be empty."""
    notes = [found.warning] if found.warning else []
    if found.mode == "keyword":
        notes.append("By keyword only: the embedding model is not ready.")
    if limit > 100:
        notes.append("limit is at most 100.")
    if truncated:
        left_out = f" and {hits - returned} left out" if hits > returned else ""
        notes.append(f"Long memories are shortened{left_out}: use get_memory, or a smaller limit.")
    if returned:
        return " ".join([f"{returned} of {found.total} memories", *notes])
    if found.total:
        below = f"; {found.ranking.below} candidates were too weak" if found.ranking.below else ""
        reason = f"None of this user's {found.total} memories matches{below}. Try other words."
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


def added(result: AddResult) -> str:
    """Text of add_memory."""
    lines = ["Already saved" if result.duplicate else "Saved", f"id: {result.memory_id}"]
    if result.indexing == "pending":
        lines.append("Found by keyword now, by meaning in a moment.")
    if result.similar:
        lines.append("Similar memories that say something else (update or delete them if this one corrects them):")
        lines += [f"- {s.id} ({s.score:.2f}): {line(s.memory)}" for s in result.similar]
    return "\n".join(lines)


def memory(result: Memory) -> str:
    """Text of get_memory: the whole content."""
    return _block(result)


def updated(result: UpdateResult) -> str:
    """Text of update_memory."""
    return f"{result.message}\n{_block(result)}"


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


def healthy(result: Health) -> str:
    """Text of health_check."""
    database, index, model = result.database, result.index, result.model
    return "\n".join(
        [
            f"{result.status}: {result.next_step}",
            f"file: {database['path']} ({database['size']:,} bytes, {database['journal_mode']}, "
            f"schema {database['schema_version']}, integrity {database['integrity']}, "
            f"{'writable' if database['writable'] else 'not writable at the moment'})",
            f"memories: {result.counts['memories']} of {result.counts['users']} users; "
            f"{index['pending']} pending, {index['failed']} failed, {index['without_vector']} without vector",
            f"model: {model['name']} ({model['dimension']}), {model['state']} {model['last_error']}".rstrip(),
            f"r3-lite {result.version}, up {result.uptime:.0f} s, {result.memory['rss'] // 1_000_000} MB resident",
        ]
    )


def _hit(hit: SearchHit) -> str:
    weak = " (weak)" if hit.score < WEAK else ""
    return f"[{hit.score:.2f}{weak}] {_block(hit)}"


def _block(memory: Memory) -> str:
    changed = f", updated {memory.updated_at[:10]}" if memory.updated_at[:10] != memory.created_at[:10] else ""
    extras: dict[str, Any] = {key: value for key, value in memory.metadata.items() if key != "_truncated"}
    if memory.priority != "medium":
        extras = {"priority": memory.priority, **extras}
    more = f" {json.dumps(extras, ensure_ascii=False)}" if extras else ""
    return f"{memory.id} · {memory.created_at[:16]}Z{changed}{more}\n{memory.content}"


def _version(entry: HistoryEntry) -> str:
    return f"{entry.version}. {entry.action} {entry.timestamp}: {entry.content}"


def line(text: str, room: int = 160) -> str:
    """Return the text on one line, shortened to `room` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= room else flat[: room - 1] + "…"

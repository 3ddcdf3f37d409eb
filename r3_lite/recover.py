"""Bringing a memory back: a deleted or merged one as it was, an overwritten one to an earlier version."""

import apsw

from r3_lite import history, similar, store
from r3_lite.clock import now_text
from r3_lite.errors import InvalidParameters
from r3_lite.history import Version
from r3_lite.store import NewMemory, Record

_ALL = 1 << 31


def restore(
    connection: apsw.Connection,
    user_id: str,
    memory_id: str,
    *,
    version: int | None = None,
    as_copy: bool = False,
) -> Record:
    """Make a memory what it was at a version, under its own id, and return it. Writes.

    Without `version`: a memory that is gone becomes what it was last, a living one what it was before the last
    change. Text, metadata, priority and the day of its making come back; keywords follow by trigger, vectors and
    entities are owed as after an add. Where the text exists as another memory it is brought back only `as_copy`, or
    when the two had been merged. Raises MemoryNotFound, and InvalidParameters where nothing can be brought back.
    """
    _, versions = history.versions(connection, user_id, memory_id, limit=_ALL)
    present = _present(connection, user_id, memory_id)
    wanted = _chosen(versions, version, present)
    other = similar.same_text(connection, user_id, wanted.content, besides=memory_id)
    changes_text = present is None or present.content != wanted.content
    merged = present is None and versions[-1].action == "merged"
    if other is not None and changes_text and not (as_copy or merged):
        raise InvalidParameters(
            f"The same text is stored as another memory, {other}; nothing was restored. Delete that one first, or "
            "have this one beside it as a copy (--copy)."
        )
    if present is not None:
        return store.change(connection, present, wanted.content, wanted.metadata, wanted.priority, "restored")
    created_at, batch = history.origin(connection, user_id, memory_id)
    new = NewMemory(
        user_id,
        wanted.content,
        wanted.metadata,
        wanted.priority,
        id=memory_id,
        created_at=created_at,
        updated_at=max(now_text(), versions[-1].timestamp),
        batch=batch,
    )
    store.insert(connection, new, check_duplicates=False, action="restored")
    return store.find(connection, user_id, memory_id)


def _present(connection: apsw.Connection, user_id: str, memory_id: str) -> Record | None:
    owner = history.owner(connection, memory_id)
    return store.find(connection, user_id, memory_id) if owner == (user_id, True) else None


def _chosen(versions: list[Version], number: int | None, present: Record | None) -> Version:
    if number is not None:
        found = next((v for v in versions if v.version == number), None)
        if found is None:
            raise InvalidParameters(
                f"There is no version of this number; {versions[0].version} to {versions[-1].version} are kept."
            )
        return found
    if present is None:
        return versions[-1]
    now = (present.content, present.metadata_json, present.priority)
    for before in reversed(versions):
        if (before.content, history.to_json(before.metadata), before.priority) != now:
            return before
    raise InvalidParameters("The memory is there, and no other version of it is kept: there is nothing to restore.")

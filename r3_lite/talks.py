"""Which memories are turns of one talk, as the caller says or as people, times and imports show. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from r3_lite.store import Record

# What the sessions begin with that an import gives to items without one.
BATCH = "import:"
# What is said at most so long after the turn before it belongs to the same talk, where no session says so.
GAP = timedelta(minutes=30)


def talks(records: Iterable[Record]) -> dict[int, str]:
    """Return a name of the talk that each memory is a turn of, by seq; memories that are none are absent.

    A talk is what the caller says is a session. Without that it is what has authors and was said with at most GAP
    between one and the next, within one import where it was imported. Notes without an author are no talk, even where
    they were stored at once: what stands beside each other there need have nothing in common.
    """
    found: dict[int, str] = {}
    loose: dict[str, list[Record]] = {}
    for record in records:
        if in_session(record) and record.session is not None:
            found[record.seq] = record.session
        elif record.author is not None:
            loose.setdefault(record.session or "", []).append(record)
    for batch, said in loose.items():
        said.sort(key=lambda record: record.created_at)
        number, latest = 0, said[0].created_at
        for record in said:
            number += not said_soon_after(latest, record.created_at)
            latest = record.created_at
            found[record.seq] = f"{BATCH}{batch}#{number}"
    return found


def in_session(record: Record) -> bool:
    """Tell whether the caller said which session a memory belongs to."""
    return record.session is not None and not record.session.startswith(BATCH)


def said_soon_after(earlier: str, later: str) -> bool:
    """Tell whether a moment is at most GAP after an earlier one; both are ISO 8601 in UTC; others are not."""
    # Most are of the same minute, which needs no calendar.
    if later[:16] == earlier[:16]:
        return True
    try:
        return datetime.fromisoformat(later) - datetime.fromisoformat(earlier) <= GAP
    except (ValueError, TypeError):
        # Another program wrote no date, or one without a zone: health_check names it.
        return False

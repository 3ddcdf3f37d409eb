"""Memories as a text file to keep, move or read: JSON and JSON Lines hold all of them, CSV and Markdown the present."""

import csv
import io
import json
import re
from collections.abc import Generator, Iterable, Iterator
from itertools import chain
from typing import Any, Literal

import apsw

from r3_lite import history, past
from r3_lite.db import Database
from r3_lite.terminal import printable

Format = Literal["json", "jsonl", "csv", "markdown"]

_COLUMNS = ("id", "user_id", "created_at", "updated_at", "priority", "content", "metadata")
# What spreadsheets take for the beginning of a formula, in its plain and its full-width form.
_FORMULA = re.compile("[=+\\-@\t\r\n＝＋－＠]")
# By day, user and session; sessions in the order in which they begin that day, memories without one first.
_PARTS = """substr(created_at, 1, 10), user_id, session IS NOT NULL,
    min(created_at) OVER (PARTITION BY user_id, session, substr(created_at, 1, 10)), session, created_at, seq"""
_MONTHS = "January February March April May June July August September October November December".split()


def export(
    database: Database, form: Format, user_id: str | None = None, *, with_history: bool = True
) -> Generator[str, None, None]:
    """Yield the memories of a user, or of all, as text: UTF-8 when encoded, lines end in LF (in CSV in CRLF).

    One snapshot, one memory in memory at a time. The same store gives the same text. JSON and JSON Lines are in the
    order of storing and hold everything, and with history all versions and what was deleted; CSV and Markdown hold
    what is at present, by day. Close the generator where it is not read to its end: it holds a read transaction.
    """
    with database.read() as connection:
        yield from _WRITERS[form](connection, user_id, with_history)


def _json(connection: apsw.Connection, user_id: str | None, with_history: bool) -> Iterator[str]:
    yield f'{_dump(past.head())[:-1]},"memories":['
    yield from _listed(_memories(connection, user_id, with_history))
    yield "]"
    if with_history:
        yield ',"deleted":['
        yield from _listed(_deleted(connection, user_id))
        yield "]"
    yield "}\n"


def _json_lines(connection: apsw.Connection, user_id: str | None, with_history: bool) -> Iterator[str]:
    yield f"{_dump(past.head())}\n"
    for item in _memories(connection, user_id, with_history):
        yield f"{_dump(item)}\n"
    if with_history:
        for item in _deleted(connection, user_id):
            yield f"{_dump(item)}\n"


def _csv(connection: apsw.Connection, user_id: str | None, _with_history: bool) -> Iterator[str]:
    """RFC 4180. A cell that a spreadsheet would take for a formula begins with an apostrophe."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    for row in chain([_COLUMNS], _rows(connection, user_id, _COLUMNS, "created_at, user_id, seq")):
        writer.writerow([f"'{cell}" if _FORMULA.match(cell) else cell for cell in row])
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()


def _markdown(connection: apsw.Connection, user_id: str | None, _with_history: bool) -> Iterator[str]:
    """By day and, within it, by session. What a memory holds stays inside a fence longer than any in it."""
    yield "# Memories\n"
    day: str | None = None
    place: tuple[str, str | None] | None = None
    columns = ("id", "user_id", "created_at", "priority", "content", "metadata", "session")
    for memory_id, owner, created_at, priority, content, metadata, session in _rows(
        connection, user_id, columns, _PARTS
    ):
        if created_at[:10] != day:
            day, place = created_at[:10], None
            yield f"\n## {int(day[8:])} {_MONTHS[int(day[5:7]) - 1]} {day[:4]}\n"
        if (owner, session) != place:
            if session is not None or place is not None or user_id is None:
                named = [f"User {_code(owner)}"] if user_id is None else []
                named.append("Without session" if session is None else f"Session {_code(session)}")
                yield f"\n### {', '.join(named)}\n"
            place = (owner, session)
        rank = "" if priority == "medium" else f", {priority}"
        yield f"\n{created_at[11:16]} UTC, {_code(memory_id)}{rank}\n\n{_fenced(content)}"
        if metadata != "{}":
            yield f"\n{_fenced(metadata, 'json')}"


_WRITERS = {"json": _json, "jsonl": _json_lines, "csv": _csv, "markdown": _markdown}


def _memories(connection: apsw.Connection, user_id: str | None, with_history: bool) -> Iterator[dict[str, Any]]:
    rows = connection.execute(
        """SELECT id, user_id, content, metadata, priority, created_at, updated_at, copy, batch FROM memories
           WHERE ?1 IS NULL OR user_id = ?1 ORDER BY seq""",
        (user_id,),
    )
    for memory_id, owner, content, metadata, priority, created_at, updated_at, copy, batch in rows:
        item = {
            "id": memory_id,
            "user_id": owner,
            "content": content,
            "metadata": history.from_json(metadata),
            "priority": priority,
            "created_at": created_at,
            "updated_at": updated_at,
            "copy": copy,
            "batch": batch,
        }
        if with_history:
            item["history"] = history.states(connection, owner, memory_id)
        yield item


def _deleted(connection: apsw.Connection, user_id: str | None) -> Iterator[dict[str, Any]]:
    for owner, memory_id in history.deleted(connection, user_id):
        created_at, batch = history.origin(connection, owner, memory_id)
        yield {
            "id": memory_id,
            "user_id": owner,
            "deleted": True,
            "created_at": created_at,
            "batch": batch,
            "history": history.states(connection, owner, memory_id),
        }


def _rows(
    connection: apsw.Connection, user_id: str | None, columns: Iterable[str], order: str
) -> Iterator[tuple[str, ...]]:
    # Sorted without their texts, which may not fit into memory all at once.
    numbers: list[Any] = connection.execute(
        f"SELECT seq FROM memories WHERE ?1 IS NULL OR user_id = ?1 ORDER BY {order}", (user_id,)
    ).fetchall()
    statement = f"SELECT {', '.join(columns)} FROM memories WHERE seq = ?"
    return (connection.execute(statement, number).get for number in numbers)


def _listed(items: Iterable[dict[str, Any]]) -> Iterator[str]:
    """One item a line: large files can be compared and searched line by line."""
    before = "\n"
    for item in items:
        yield f"{before}{_dump(item)}"
        before = ",\n"
    yield "\n"


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _fenced(text: str, language: str = "text") -> str:
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{printable(text)}\n{fence}\n"


def _code(text: str) -> str:
    """Return text as a code span of one line, whatever signs are in it."""
    flat = printable(" ".join(text.split()))
    tick = "`" * (1 + max(map(len, re.findall("`+", flat)), default=0))
    return f"{tick} {flat} {tick}" if "`" in flat else f"{tick}{flat}{tick}"

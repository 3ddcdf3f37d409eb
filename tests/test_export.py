"""Memories as text: everything in JSON, nothing that breaks out of CSV or Markdown, the same for the same store."""

import csv
import io
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any, get_args

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from r3_lite import store
from r3_lite.db import Database
from r3_lite.export import Format, export
from r3_lite.store import NewMemory

ADA, BEN = "ada", "ben"
FIRST, SECOND = "2026-01-31T09:30:00.000001Z", "2026-02-01T10:00:00.000000Z"


@pytest.fixture
def connection(database: Database) -> Iterator[apsw.Connection]:
    with database.write() as connection:
        yield connection


def add(connection: apsw.Connection, content: str, user_id: str = ADA, **more: Any) -> str:
    return store.insert(connection, NewMemory(user_id, content, **more), check_duplicates=False).id


def text(database: Database, form: Format, user_id: str | None = ADA, **more: Any) -> str:
    return "".join(export(database, form, user_id, **more))


def test_json_holds_everything(database: Database, connection: apsw.Connection) -> None:
    content = " “Zwei”\r\n\u2028 \0 東京 🎉 "
    metadata = {"b": 1, "a": [1.0, None, {"é": "\u0085"}], "priority": "x"}
    add(connection, content, id="a", metadata=metadata, priority="high", created_at=FIRST, batch="trip")
    store.update(connection, ADA, "a", priority="low")
    connection.execute("UPDATE memories SET updated_at = ?", (SECOND,))
    connection.execute("UPDATE history SET timestamp = ? WHERE version = 2", (SECOND,))
    add(connection, content, id="copy", created_at=SECOND)
    add(connection, "gone", id="gone", created_at=FIRST)
    store.delete(connection, ADA, "gone")
    connection.execute("UPDATE history SET timestamp = ? WHERE action = 'deleted'", (SECOND,))

    def version(number: int, action: str, words: str, priority: str, timestamp: str, **more: Any) -> dict[str, Any]:
        what = {"content": words, "metadata": more.get("metadata", {}), "priority": priority, "timestamp": timestamp}
        return {"version": number, "action": action, **what}

    assert json.loads(text(database, "json")) == {
        "format": "r3-lite",
        "version": 1,
        "memories": [
            {
                "id": "a",
                "user_id": ADA,
                "content": content,
                "metadata": metadata,
                "priority": "low",
                "created_at": FIRST,
                "updated_at": SECOND,
                "copy": 0,
                "batch": "trip",
                "history": [
                    version(1, "created", content, "high", FIRST, metadata=metadata),
                    version(2, "updated", content, "low", SECOND, metadata=metadata),
                ],
            },
            {
                "id": "copy",
                "user_id": ADA,
                "content": content,
                "metadata": {},
                "priority": "medium",
                "created_at": SECOND,
                "updated_at": SECOND,
                "copy": 1,
                "batch": None,
                "history": [version(1, "created", content, "medium", SECOND)],
            },
        ],
        "deleted": [
            {
                "id": "gone",
                "user_id": ADA,
                "deleted": True,
                "created_at": FIRST,
                "batch": None,
                "history": [
                    version(1, "created", "gone", "medium", FIRST),
                    version(2, "deleted", "gone", "medium", SECOND),
                ],
            }
        ],
    }


def test_json_lines_hold_the_same_one_a_line(database: Database, connection: apsw.Connection) -> None:
    for number in range(3):
        add(connection, f"one\u2028{number}\r\n")
    store.delete(connection, ADA, add(connection, "gone"))
    head, *items, end = text(database, "jsonl").split("\n")
    assert end == ""
    whole = json.loads(text(database, "json"))
    assert json.loads(head) == {"format": whole["format"], "version": whole["version"]}
    assert [json.loads(item) for item in items] == [*whole["memories"], *whole["deleted"]]


def test_without_history_only_what_is_there_is_written(database: Database, connection: apsw.Connection) -> None:
    add(connection, "here", id="here")
    store.delete(connection, ADA, add(connection, "gone"))
    document = json.loads(text(database, "json", with_history=False))
    assert set(document) == {"format", "version", "memories"}
    assert [set(m) & {"id", "history"} for m in document["memories"]] == [{"id"}]
    assert len(text(database, "jsonl", with_history=False).splitlines()) == 2


def test_memories_are_in_the_order_of_storing(database: Database, connection: apsw.Connection) -> None:
    add(connection, "late", created_at=SECOND)
    add(connection, "early", created_at=FIRST)
    contents = [m["content"] for m in json.loads(text(database, "json"))["memories"]]
    assert contents == ["late", "early"]


@pytest.mark.parametrize("form", get_args(Format))
def test_users_are_apart_unless_all_are_wanted(database: Database, connection: apsw.Connection, form: Format) -> None:
    add(connection, "apples")
    add(connection, "bread", BEN)
    store.delete(connection, BEN, add(connection, "breadcrumbs", BEN))
    assert "bread" not in text(database, form)
    whole = text(database, form, None)
    assert "apples" in whole
    assert "bread" in whole
    assert BEN in whole


@pytest.mark.parametrize("form", get_args(Format))
def test_the_same_store_gives_the_same_text(database: Database, connection: apsw.Connection, form: Format) -> None:
    for number in range(20):
        add(connection, f"note {number % 7}", metadata={"session_id": str(number % 3)}, created_at=FIRST)
    assert text(database, form) == text(database, form)


def test_an_empty_store_is_a_whole_file(database: Database) -> None:
    assert json.loads(text(database, "json")) == {"format": "r3-lite", "version": 1, "memories": [], "deleted": []}
    assert text(database, "jsonl") == '{"format":"r3-lite","version":1}\n'
    assert text(database, "csv") == "id,user_id,created_at,updated_at,priority,content,metadata\r\n"
    assert text(database, "markdown") == "# Memories\n"


def test_csv_has_a_row_a_memory_oldest_first(database: Database, connection: apsw.Connection) -> None:
    add(connection, 'a "quoted"\nline, and more', id="b", created_at=SECOND, priority="high", metadata={"é": [1]})
    add(connection, "plain", id="a", created_at=FIRST)
    assert text(database, "csv") == (
        "id,user_id,created_at,updated_at,priority,content,metadata\r\n"
        f"a,ada,{FIRST},{FIRST},medium,plain,{{}}\r\n"
        f'b,ada,{SECOND},{SECOND},high,"a ""quoted""\nline, and more","{{""é"":[1]}}"\r\n'
    )


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"])
def test_no_cell_is_a_formula(database: Database, connection: apsw.Connection, start: str) -> None:
    add(connection, f"{start}HYPERLINK(1)", f"{start}user")
    rows = list(csv.reader(io.StringIO(text(database, "csv", None), newline="")))
    assert (rows[1][5], rows[1][1]) == (f"'{start}HYPERLINK(1)", f"'{start}user")


def test_markdown_reads_by_day_and_session(database: Database, connection: apsw.Connection) -> None:
    add(connection, "second session", id="c", created_at="2026-01-31T12:00:00.000000Z", metadata={"session_id": "a"})
    add(connection, "no session", id="a", created_at=FIRST)
    add(connection, "first session", id="b", created_at="2026-01-31T11:00:00.000000Z", metadata={"session_id": "b"})
    add(connection, "again first", id="d", created_at="2026-01-31T13:00:00.000000Z", metadata={"session_id": "b"})
    add(connection, "next day", id="e", created_at=SECOND, priority="critical")
    assert (
        text(database, "markdown")
        == """# Memories

## 31 January 2026

09:30 UTC, `a`

```text
no session
```

### Session `b`

11:00 UTC, `b`

```text
first session
```

```json
{"session_id":"b"}
```

13:00 UTC, `d`

```text
again first
```

```json
{"session_id":"b"}
```

### Session `a`

12:00 UTC, `c`

```text
second session
```

```json
{"session_id":"a"}
```

## 1 February 2026

10:00 UTC, `e`, critical

```text
next day
```
"""
    )


def test_nothing_breaks_out_of_its_fence(database: Database, connection: apsw.Connection) -> None:
    add(connection, "```\n# Heading\n`````\n\x1b[31mred", metadata={"session_id": "``x`\n# y", "k": "````"})
    lines = text(database, "markdown").split("\n")
    headings = [line for line in lines if line.startswith("#") and line != "# Heading"]
    assert [heading.split()[0] for heading in headings] == ["#", "##", "###"]
    start = lines.index("``````text")
    assert lines[start + 1 : start + 6] == ["```", "# Heading", "`````", "␛[31mred", "``````"]
    assert "`````json" in lines
    assert "### Session ``` ``x` # y ```" in lines


@given(st.text(alphabet="`~\n #a\r\t", min_size=1))
def test_a_fence_is_longer_than_any_in_the_text(content: str) -> None:
    from r3_lite.export import _fenced

    opening, *inside, closing, _ = _fenced(content).split("\n")
    assert opening == closing + "text"
    assert all(not line.strip().startswith(closing) for line in inside)


def test_an_export_sees_one_moment(database: Database, db_path: Any) -> None:
    with database.write() as connection:
        for number in range(5):
            add(connection, f"note {number}")
    parts = export(database, "jsonl", ADA)
    first = [next(parts), next(parts)]
    other = Database(db_path)
    with other.write() as writer:
        store.delete_all(writer, ADA)
    other.close()
    items = [json.loads(part) for part in [*first, *parts][1:]]
    assert [item["content"] for item in items] == [f"note {n}" for n in range(5)]


@pytest.mark.parametrize("form", get_args(Format))
def test_memory_does_not_grow_with_the_store(database: Database, connection: apsw.Connection, form: Format) -> None:
    def peak() -> int:
        tracemalloc.start()
        for _ in export(database, form, ADA):
            pass
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    def fill(count: int) -> None:
        for _ in range(count):
            add(connection, "long " * 10_000)

    fill(5)
    few = peak()
    fill(45)
    assert peak() < 2 * few

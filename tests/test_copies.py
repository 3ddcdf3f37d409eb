"""Copies of a file in use: one moment, whole or not at all, and nothing changed at the source."""

from pathlib import Path

import apsw
import pytest

from r3_lite.copies import copy_database, opened_to_read


@pytest.fixture
def source(tmp_path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(tmp_path / "source.db"))
    connection.execute("PRAGMA journal_mode = wal").fetchall()
    connection.execute("CREATE TABLE numbers (n)")
    connection.execute("INSERT INTO numbers VALUES (1)")
    return connection


def numbers(path: Path) -> list[object]:
    with opened_to_read(path) as connection:
        return [n for (n,) in connection.execute("SELECT n FROM numbers ORDER BY n")]


def test_a_copy_holds_what_is_committed_and_nothing_else(source: apsw.Connection, tmp_path: Path) -> None:
    writer = apsw.Connection(str(tmp_path / "source.db"))
    writer.execute("BEGIN IMMEDIATE; INSERT INTO numbers VALUES (2)")
    copy_database(source, tmp_path / "copy.db")
    writer.execute("COMMIT")
    assert numbers(tmp_path / "copy.db") == [1]
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600


def test_a_copy_that_fails_leaves_nothing(source: apsw.Connection, tmp_path: Path) -> None:
    (tmp_path / "copy.db").write_bytes(b"no database" * 1000)
    with pytest.raises(apsw.NotADBError):
        copy_database(source, tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()


def test_reading_a_file_at_rest_leaves_nothing_beside_it(source: apsw.Connection, tmp_path: Path) -> None:
    source.close()
    assert numbers(tmp_path / "source.db") == [1]
    assert [path.name for path in tmp_path.iterdir()] == ["source.db"]


def test_a_log_is_read_with_its_file(source: apsw.Connection, tmp_path: Path) -> None:
    source.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
    source.execute("INSERT INTO numbers VALUES (2)")
    assert numbers(tmp_path / "source.db") == [1, 2]


def test_what_is_opened_to_read_cannot_be_written(source: apsw.Connection, tmp_path: Path) -> None:
    with opened_to_read(tmp_path / "source.db") as connection, pytest.raises(apsw.ReadOnlyError):
        connection.execute("INSERT INTO numbers VALUES (2)")

"""What is not whole yet: whose it is can be told from its name, and only what nobody works on is removed."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from r3_lite.unfinished import clear, signature, unfinished_in


def gone() -> str:
    """The signature of a process of this machine that has ended."""
    program = "from r3_lite.unfinished import signature; print(signature())"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    return ended.stdout.strip()


def name(of: str, target: str = "memories.db.backup") -> str:
    return f"{target}.{of}-0a1b2c3d.part"


def aged(path: Path, seconds: float) -> Path:
    then = time.time() - seconds
    os.utime(path, (then, then))
    return path


@pytest.fixture(scope="module", name="killed")
def _killed() -> str:
    return gone()


def test_what_a_process_that_is_gone_left_is_removed(tmp_path: Path, killed: str) -> None:
    (tmp_path / name(killed)).write_text("half")
    (tmp_path / f"{name(killed)}-journal").write_text("half")
    folder = tmp_path / name(killed, ".restore")
    folder.mkdir()
    (folder / "memories.db").write_text("whole")
    assert len(unfinished_in(tmp_path)) == 3
    clear(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_a_process_works_on_stays_however_long_it_takes(tmp_path: Path) -> None:
    here = tmp_path / name(signature())
    here.touch()
    clear(tmp_path)
    assert unfinished_in(tmp_path) == [here]


def test_a_process_that_began_later_has_only_got_the_number(tmp_path: Path) -> None:
    here = tmp_path / name(signature())
    here.touch()
    # Before any process of this machine began.
    aged(here, time.time() - 1)
    clear(tmp_path)
    assert unfinished_in(tmp_path) == []


def test_what_another_machine_does_is_left_for_an_hour(tmp_path: Path, killed: str) -> None:
    machine, process = killed.split("-")
    other = f"{int(machine, 16) ^ 1:08x}-{process}"
    recent, old = tmp_path / name(other, "recent"), tmp_path / name(other, "old")
    for path, seconds in ((recent, 3_000), (old, 4_000)):
        path.touch()
        aged(path, seconds)
    clear(tmp_path)
    assert unfinished_in(tmp_path) == [recent]


@pytest.mark.parametrize("other", ["movie.part", "a.1234.part", "memories.db.0a1b2c3d-12-0a1b2c3d.part.zip"])
def test_files_of_others_are_not_touched(tmp_path: Path, other: str) -> None:
    aged_file = tmp_path / other
    aged_file.touch()
    aged(aged_file, 10_000)
    clear(tmp_path)
    assert list(tmp_path.iterdir()) == [aged_file]
    assert unfinished_in(tmp_path) == []


def test_what_cannot_be_removed_hinders_nobody(tmp_path: Path, killed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / name(killed, "a"), tmp_path / name(killed, "b")
    first.touch()
    second.touch()
    unlink = Path.unlink

    def refuse(path: Path, missing_ok: bool = False) -> None:
        if path == first:
            raise PermissionError
        unlink(path, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        clear(tmp_path)
    assert unfinished_in(tmp_path) == [first]

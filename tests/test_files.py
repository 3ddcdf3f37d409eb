"""The database file among other files: creation, rights, and the kind of disk it is on."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import on_file_system, without_root_powers

from r3_lite.errors import InvalidParameters
from r3_lite.files import adjust_rights, beside, create, is_network_path, new_file, replace_database


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_a_name_beside_a_file_keeps_its_folder_and_its_ending(tmp_path: Path) -> None:
    assert beside(tmp_path / "memories.db", "-wal") == tmp_path / "memories.db-wal"


def test_missing_folders_and_the_file_are_made_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "one" / "two" / "memories.db"
    create(path)
    assert path.read_bytes() == b""
    assert (mode(path), mode(path.parent), mode(path.parent.parent)) == (0o600, 0o700, 0o700)


def test_what_is_there_already_stays_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o755)
    path = folder / "memories.db"
    path.write_bytes(b"content")
    create(path)
    assert (path.read_bytes(), mode(path), mode(folder)) == (b"content", 0o644, 0o755)


@pytest.mark.parametrize(("before", "after"), [(0o644, 0o600), (0o666, 0o600), (0o600, 0o600), (0o444, 0o400)])
def test_only_the_owner_keeps_rights_and_side_files_get_the_same(tmp_path: Path, before: int, after: int) -> None:
    path = tmp_path / "memories.db"
    files = [path, *(beside(path, suffix) for suffix in ("-wal", "-shm", "-journal"))]
    for file in files:
        file.touch()
        file.chmod(0o444)
    path.chmod(before)
    adjust_rights(path)
    assert [mode(file) for file in files] == [after] * 4


def test_rights_that_cannot_be_changed_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "memories.db"
    path.touch(0o644)

    def refuse(*_: object) -> None:
        raise PermissionError

    with without_root_powers(), monkeypatch.context() as patch:
        patch.setattr(Path, "chmod", refuse)
        adjust_rights(path)
    assert mode(path) == 0o644


@pytest.mark.parametrize(
    "kind", ["nfs", "nfs4", "cifs", "smb3", "smbfs", "afpfs", "9p", "virtiofs", "fuse.sshfs", "fuse", "davfs", "ceph"]
)
def test_network_file_systems_are_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str) -> None:
    on_file_system(monkeypatch, kind, tmp_path)
    assert is_network_path(tmp_path / "deep" / "memories.db")
    assert not is_network_path(tmp_path.with_name(tmp_path.name + "-other") / "memories.db")


@pytest.mark.parametrize("kind", ["ext4", "btrfs", "apfs", "xfs", "NTFS", "tmpfs", "overlay", "fuseblk", "zfs"])
def test_local_file_systems_are_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str) -> None:
    on_file_system(monkeypatch, kind, tmp_path)
    assert not is_network_path(tmp_path / "memories.db")


def test_a_link_onto_a_network_file_system_is_followed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "share").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "share")
    on_file_system(monkeypatch, "nfs4", (tmp_path / "share").resolve())
    assert is_network_path(tmp_path / "link" / "memories.db")


def test_without_a_mount_table_every_path_is_local(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def unreadable(**_: object) -> list[object]:
        raise FileNotFoundError

    monkeypatch.setattr("psutil.disk_partitions", unreadable)
    assert not is_network_path(tmp_path / "memories.db")


def test_a_new_file_gets_its_name_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "export.json"
    with new_file(target) as unfinished:
        assert mode(unfinished) == 0o600
        unfinished.write_text("whole")
        assert not target.exists()
    assert (target.read_text(), mode(target)) == ("whole", 0o600)
    assert list(tmp_path.iterdir()) == [target]


def test_nothing_is_left_of_a_new_file_that_failed(tmp_path: Path) -> None:
    with pytest.raises(UnicodeEncodeError), new_file(tmp_path / "export.json") as unfinished:
        unfinished.write_text("half \udc00", encoding="utf-8")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_overwritten_only_when_told(tmp_path: Path) -> None:
    target = tmp_path / "export.json"
    target.write_text("old")
    target.chmod(0o644)
    with pytest.raises(InvalidParameters, match="--force"), new_file(target):
        pass
    assert target.read_text() == "old"
    with new_file(target, overwrite=True) as unfinished:
        unfinished.write_text("new")
    assert (target.read_text(), mode(target)) == ("new", 0o600)


@pytest.mark.parametrize("links", [True, False])
def test_a_file_made_meanwhile_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    target = tmp_path / "export.json"
    with pytest.raises(InvalidParameters, match="--force"), new_file(target):
        target.write_text("somebody else's")
    assert target.read_text() == "somebody else's"
    with new_file(tmp_path / "other.json") as unfinished:
        unfinished.write_text("whole")
    assert (tmp_path / "other.json").read_text() == "whole"
    assert len(list(tmp_path.iterdir())) == 2


def test_what_is_no_file_is_never_overwritten(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameters, match="no file"), new_file(tmp_path, overwrite=True):
        pass
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidParameters, match="no file"), new_file(tmp_path / "pipe", overwrite=True):
        pass


def test_a_link_is_exchanged_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    target = tmp_path / "export.json"
    target.symlink_to(tmp_path / "precious")
    with new_file(target, overwrite=True) as unfinished:
        unfinished.write_text("new")
    assert ((tmp_path / "precious").read_text(), target.read_text()) == ("precious", "new")


@pytest.mark.parametrize("name", ["memories.db", "memories.db-wal", "memories.db-shm", "memories.db-journal"])
def test_the_database_is_never_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with (
        pytest.raises(InvalidParameters, match="memories themselves"),
        new_file(tmp_path / "link" / name, overwrite=True, never=tmp_path / "memories.db"),
    ):
        pass


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameters, match="FileNotFoundError"), new_file(tmp_path / "nowhere" / "export.json"):
        pass


@pytest.mark.parametrize("links", [True, False])
def test_a_database_that_is_replaced_is_kept_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    path, new, kept = tmp_path / "memories.db", tmp_path / "new", tmp_path / "kept"
    for suffix in ("", "-wal", "-shm", "-journal"):
        beside(path, suffix).write_text(f"old{suffix}")
    new.write_text("new")
    replace_database(path, new, kept)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {
        "memories.db": "new",
        "kept": "old",
        "kept-wal": "old-wal",
        "kept-journal": "old-journal",
    }

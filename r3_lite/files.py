"""The database file among other files: its folder, its rights, what lies beside it, the kind of disk it is on."""

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path

from r3_lite.errors import InvalidParameters
from r3_lite.unfinished import signature

SIDE_FILES = ("-wal", "-shm", "-journal")

# File systems on which the shared memory of WAL does not work between machines (sqlite.org/wal.html).
_NETWORK_FILE_SYSTEMS = re.compile(
    r"^(nfs\d?|cifs|smb\w*|afp\w*|afs|9p|virtiofs|vboxsf|ncpfs|ceph|gluster\w*|lustre|fuse(\..*)?|davfs\w*|webdav)$"
)


def beside(path: Path, suffix: str) -> Path:
    """Return the path of a file that lies beside another and bears its name and a suffix."""
    return path.with_name(path.name + suffix)


def create(path: Path) -> None:
    """Create the folder (0700) and the file (0600) where missing; what is there already stays as it is."""
    missing = [p for p in (path.parent, *path.parent.parents) if not p.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    if not path.exists():
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def adjust_rights(path: Path) -> None:
    """Take others' rights to the file and give its side files the same as it has, where they are the user's own.

    SQLite makes side files as the file is then: they stay unwritable when the file becomes writable.
    """
    rights = stat.S_IMODE(path.stat().st_mode) & stat.S_IRWXU
    for file in (path, *(beside(path, suffix) for suffix in SIDE_FILES)):
        # It may be another user's, on a medium that cannot be written, or gone by now.
        with contextlib.suppress(OSError):
            if stat.S_IMODE(file.stat().st_mode) != rights:
                file.chmod(rights)


def is_network_path(path: Path) -> bool:
    """Tell whether `path` really lies on a network or virtual file system, by the machine's mount table.

    Where that table cannot be read (some sandboxes) every path counts as local.
    """
    import psutil

    try:
        partitions = psutil.disk_partitions(all=True)
    except OSError:
        return False
    real = path.resolve()
    mounts = [m for m in partitions if real.is_relative_to(m.mountpoint)]
    nearest = max(mounts, key=lambda m: len(m.mountpoint), default=None)
    return nearest is not None and bool(_NETWORK_FILE_SYSTEMS.match(nearest.fstype.lower()))


@contextlib.contextmanager
def new_file(target: Path, *, overwrite: bool = False, never: Path | None = None) -> Iterator[Path]:
    """Give the block an empty file to fill, as `named_when_whole` does, for a target that a caller chose.

    Raises InvalidParameters where `target` is there already and may not be overwritten, is no file, belongs to the
    database `never`, or cannot be written.
    """
    check_target(target, overwrite=overwrite, never=never)
    try:
        with named_when_whole(target, overwrite=overwrite) as unfinished:
            yield unfinished
    except FileExistsError:
        raise _there_already() from None
    except OSError as error:
        raise InvalidParameters(f"The file cannot be written ({type(error).__name__}). Give another path.") from error


@contextlib.contextmanager
def named_when_whole(target: Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Give the block an empty file (0600) beside `target`; at its end the file gets that name, whole and on the disk.

    When the block raises nothing is left; when the process is killed, a file that `unfinished.clear` knows. Raises
    OSError, FileExistsError where `target` is there and may not be overwritten.
    """
    unfinished = beside(target, f".{signature()}-{secrets.token_hex(4)}.part")
    os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        yield unfinished
        _sync(unfinished)
        _give_name(unfinished, target, overwrite)
    finally:
        unfinished.unlink(missing_ok=True)
    if os.name == "posix":
        _sync(target.parent)


def check_target(target: Path, *, overwrite: bool = False, never: Path | None = None) -> None:
    """Raise InvalidParameters where a new file must not be made under this name; see `new_file`."""
    if never is not None and target.resolve() in {never.resolve(), *(beside(never.resolve(), s) for s in SIDE_FILES)}:
        raise InvalidParameters("That is the file of the memories themselves. Give another path.")
    try:
        kind = target.lstat().st_mode
    except OSError:
        return
    if not stat.S_ISREG(kind) and not stat.S_ISLNK(kind):
        raise InvalidParameters("There is something of that name that is no file. Give another path.")
    if not overwrite:
        raise _there_already()


def replace_database(path: Path, new: Path, kept: Path) -> None:
    """Put a whole file `new` in the place of a database, which is kept, with its log, under another name.

    The log goes first: left alone it would be applied to the file that comes.
    """
    for suffix in ("-wal", "-journal"):
        with contextlib.suppress(FileNotFoundError):
            beside(path, suffix).rename(beside(kept, suffix))
    beside(path, "-shm").unlink(missing_ok=True)
    try:
        # At no moment without a file: a server that starts just then would make an empty one.
        os.link(path, kept)
    except OSError:  # a file system without links
        path.rename(kept)
    new.replace(path)


def _give_name(file: Path, target: Path, overwrite: bool) -> None:
    if overwrite:
        file.replace(target)
        return
    try:
        # Fails, unlike renaming, where another process has taken the name meanwhile.
        os.link(file, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if target.exists():
            raise FileExistsError from None
        file.rename(target)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _there_already() -> InvalidParameters:
    return InvalidParameters("There is a file of that name already. Give another path, or --force to overwrite it.")

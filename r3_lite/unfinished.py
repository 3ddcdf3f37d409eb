"""Files and folders that are not whole yet: their names tell who makes them, and so what a killed process has left."""

import contextlib
import hashlib
import os
import platform
import re
import shutil
import time
from pathlib import Path

# With what SQLite lays beside a file that it writes.
_NAME = re.compile(r"\.(?P<machine>[0-9a-f]{8})-(?P<process>\d{1,10})-\w{8}\.part(?:-journal|-wal|-shm)?$")
# Seconds after which nobody on another machine is at work on a file that did not change.
_ABANDONED = 3_600.0


def signature() -> str:
    """Return what this process puts into the names of what it makes: machine-process.

    The whole name is `*.SIGNATURE-XXXXXXXX.part`, with eight letters or digits by chance.
    """
    return f"{_machine()}-{os.getpid()}"


def unfinished_in(folder: Path) -> list[Path]:
    """Return what any process makes in a folder, or has left there unfinished, by name."""
    return sorted(path for path in folder.glob("*.part*") if _NAME.search(path.name))


def clear(folder: Path) -> None:
    """Remove what was left unfinished in a folder by processes that are gone; what cannot be removed stays.

    On another machine, which may share the disk, nobody can be asked for: what did not change for an hour is left.
    """
    for path in unfinished_in(folder):
        # It may be another user's, or gone by now.
        with contextlib.suppress(OSError):
            if _is_left(path):
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink()


def _is_left(path: Path) -> bool:
    import psutil

    name = _NAME.search(path.name)
    assert name is not None
    changed = path.lstat().st_mtime
    if name["machine"] != _machine():
        return time.time() - changed > _ABANDONED
    try:
        # One that began later has got the number of one that is gone.
        return bool(psutil.Process(int(name["process"])).create_time() > changed + 1)
    except psutil.NoSuchProcess:
        return True


def _machine() -> str:
    return hashlib.blake2b(platform.node().encode(), digest_size=4).hexdigest()

"""The database file among other files: its folder, its rights, what lies beside it, the kind of disk it is on."""

import contextlib
import os
import re
import stat
from pathlib import Path

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
    for file in (path, *(beside(path, suffix) for suffix in ("-wal", "-shm", "-journal"))):
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

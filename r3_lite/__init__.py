"""r3-lite: local memory for AI assistants, in one SQLite file."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("r3-lite")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+source"

__all__ = ["__version__"]

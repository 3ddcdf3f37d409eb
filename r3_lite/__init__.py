"""r3-lite: local memory for AI assistants, in one SQLite file."""

__all__ = ["__version__"]


def __getattr__(name: str) -> str:
    # Looked up at the first use: importlib.metadata takes longer to import than the whole command line.
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("r3-lite")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0+source"

"""r3-lite: local memory for AI assistants, in one SQLite file."""

import os

__all__ = ["__version__"]

# onnxruntime and the hub library report usage to their makers, and leave a device id, unless they are told not to
# before they are imported. Nothing leaves this machine, so they are told here, before any other module of ours.
for _switch in ("ORT_DISABLE_TELEMETRY", "HF_HUB_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
    os.environ[_switch] = "1"


def __getattr__(name: str) -> str:
    # Looked up at the first use: importlib.metadata takes longer to import than the whole command line.
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("r3-lite")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "0+source"

"""What a process writes to standard error: a line per warning, never a traceback, a content or a key.

Clients keep the standard error of their servers in log files and show it to people as errors.
"""

import logging
import os
import threading

from r3_lite.settings import Settings

_OURS = "r3_lite"


def configure(settings: Settings) -> None:
    """Set up logging for this process. Call it once, before fastmcp is imported: its own set-up is switched off.

    Our loggers write from WARNING on, with `quiet` off from INFO, with `debug` from DEBUG. Of other libraries only
    errors appear, as the name of the logger and the type of the error, since their messages can hold arguments.
    """
    # A value that FastMCP does not know would end the import.
    os.environ.update(FASTMCP_LOG_ENABLED="false", FASTMCP_LOG_LEVEL="WARNING")
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine())
    logging.basicConfig(handlers=[handler], level=logging.ERROR, force=True)
    logging.captureWarnings(True)
    level = logging.DEBUG if settings.debug else logging.WARNING if settings.quiet else logging.INFO
    logging.getLogger(_OURS).setLevel(level)
    threading.excepthook = _thread_ended


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        if record.name.split(".")[0] == _OURS:
            message = record.getMessage()
        else:
            error = record.exc_info[0] if record.exc_info else None
            message = f"{record.name} reports an error" + (f" ({error.__name__})" if error else "")
        return f"r3-lite {record.levelname.lower()}: {' '.join(message.split())}"


def _thread_ended(ended: threading.ExceptHookArgs) -> None:
    name = ended.thread.name if ended.thread else "unknown"
    logging.getLogger(_OURS).error("the thread %s ended with %s", name, ended.exc_type.__name__)

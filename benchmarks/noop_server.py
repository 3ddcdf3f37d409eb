"""The real server with one more tool that does nothing: what a call costs before any work is done."""

from r3_lite.app import mcp
from r3_lite.cli import main


@mcp.tool
def noop() -> str:
    """Do nothing."""
    return "done"


if __name__ == "__main__":
    main()

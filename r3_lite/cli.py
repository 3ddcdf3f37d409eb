"""r3-lite."""


def main() -> None:
    """Serve."""
    from r3_lite.wire import guard_stdin
    from r3_lite.app import mcp

    guard_stdin()
    mcp.run(transport="stdio", show_banner=False)

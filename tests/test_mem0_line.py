"""The line to Mem0: whatever is waited for ends in time, or when it shall stop."""

import asyncio
from collections.abc import Callable

import httpx2
import pytest

from r3_lite.errors import ImportFailed, Mem0Failed
from r3_lite.mem0_line import open_line


def never() -> bool:
    return False


async def forever(ended: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("ended")


async def answer() -> int:
    await asyncio.sleep(0)
    return 7


async def fault() -> None:
    raise ValueError("a fault")


def test_work_is_done_and_its_faults_are_raised() -> None:
    with open_line(httpx2.AsyncClient(), 60, never) as line:
        assert line.wait_for(answer(), 60) == 7
        with pytest.raises(ValueError, match="a fault"):
            line.wait_for(fault(), 60)


@pytest.mark.parametrize(
    ("seconds", "whole", "stopped", "error"),
    [(0.01, 60.0, never, TimeoutError), (60.0, 60.0, lambda: True, ImportFailed), (60.0, -1.0, never, Mem0Failed)],
)
def test_work_without_end_is_broken_off(
    seconds: float, whole: float, stopped: Callable[[], bool], error: type[Exception]
) -> None:
    ended: list[str] = []
    with open_line(httpx2.AsyncClient(), whole, stopped) as line:
        with pytest.raises(error):
            line.wait_for(forever(ended), seconds)
        assert ended == ["ended"]


def test_a_pause_is_broken_off() -> None:
    with open_line(httpx2.AsyncClient(), 60, lambda: True) as line, pytest.raises(ImportFailed):
        line.pause(1_000)


def test_the_client_is_closed_at_the_end() -> None:
    client = httpx2.AsyncClient()
    with open_line(client, 60, never):
        pass
    assert client.is_closed

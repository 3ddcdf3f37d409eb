"""Rate limits: documented numbers, a window that slides, a setting."""

import pytest

from r3_lite.errors import InvalidParameters, RateLimitExceeded
from r3_lite.rates import DOCUMENTED, RateLimits, limits_of
from r3_lite.settings import load_settings


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def spent(rates: RateLimits, tool: str, user: str = "ada", *, networked: bool = False) -> bool:
    """Whether a call was let through."""
    try:
        rates.spend(tool, user, networked=networked)
    except RateLimitExceeded:
        return False
    return True


@pytest.mark.parametrize(
    ("tool", "limit"), [("add_memory", 100), ("search_memory", 500), ("delete_memory", 50), ("delete_all_memories", 50)]
)
def test_so_many_calls_a_minute_pass_and_no_more(tool: str, limit: int) -> None:
    rates = RateLimits(DOCUMENTED, Clock())
    assert sum(spent(rates, tool) for _ in range(limit + 10)) == limit


def test_the_window_slides() -> None:
    clock = Clock()
    rates = RateLimits({"delete": 2}, clock)
    assert spent(rates, "delete_memory")
    clock.now += 40
    assert [spent(rates, "delete_memory") for _ in range(2)] == [True, False]
    clock.now += 20
    assert [spent(rates, "delete_memory") for _ in range(2)] == [True, False]


def test_the_error_says_how_long_to_wait() -> None:
    clock = Clock()
    rates = RateLimits({"add": 1}, clock)
    rates.spend("add_memory", "ada", networked=False)
    clock.now += 12.5
    with pytest.raises(RateLimitExceeded) as caught:
        rates.spend("add_memory", "ada", networked=False)
    assert caught.value.details == {"limit": 1, "retry_after": 48}
    clock.now += 48
    rates.spend("add_memory", "ada", networked=False)


def test_users_and_kinds_do_not_share_a_limit_but_tools_of_a_kind_do() -> None:
    rates = RateLimits({"add": 1, "search": 1}, Clock())
    assert spent(rates, "import_memories")
    assert not spent(rates, "add_memory")
    assert spent(rates, "add_memory", "bob")
    assert spent(rates, "search_memory")


@pytest.mark.parametrize("tool", ["get_memory", "get_all_memories", "cache_stats", "optimize_cache", "health_check"])
def test_other_tools_are_free(tool: str) -> None:
    rates = RateLimits({"add": 1, "search": 1, "delete": 1}, Clock())
    assert all(spent(rates, tool) for _ in range(1000))


def test_by_default_the_transport_decides() -> None:
    rates = RateLimits(limits_of("auto"), Clock())
    assert sum(spent(rates, "delete_memory") for _ in range(60)) == 60
    assert sum(spent(rates, "delete_memory", networked=True) for _ in range(60)) == 50


def test_a_setting_counts_whatever_the_transport() -> None:
    for networked in (True, False):
        off, on = RateLimits(limits_of("off"), Clock()), RateLimits(limits_of("on"), Clock())
        assert sum(spent(off, "delete_memory", networked=networked) for _ in range(60)) == 60
        assert sum(spent(on, "delete_memory", networked=networked) for _ in range(60)) == 50


def test_own_numbers_leave_the_other_kinds_as_documented() -> None:
    assert limits_of(" Add=7, delete=1") == {"add": 7, "search": 500, "delete": 1}


@pytest.mark.parametrize("setting", ["yes", "add", "add=0", "add=-1", "add=1;delete=2", "fly=1", "add=1,", "add=1e3"])
def test_another_setting_is_refused(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("R3_RATE_LIMITS", setting)
    with pytest.raises(InvalidParameters, match="R3_RATE_LIMITS"):
        load_settings()


def test_windows_of_users_who_left_are_dropped() -> None:
    clock = Clock()
    rates = RateLimits({"add": 1}, clock)
    for number in range(1000):
        rates.spend("add_memory", str(number), networked=False)
    clock.now += 60
    rates.spend("add_memory", "new", networked=False)
    assert list(vars(rates)["_calls"]) == [("new", "add")]

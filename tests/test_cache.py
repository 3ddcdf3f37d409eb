"""The search cache: bounded, timed, measured, and safe among threads."""

from concurrent.futures import ThreadPoolExecutor

from r3_lite.cache import SEARCH_SECONDS, SearchCache


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_was_put_is_got() -> None:
    cache = SearchCache(2)
    cache.put("a", [1])
    assert cache.get("a") == [1]
    assert cache.get("b") is None


def test_the_oldest_unused_entry_makes_room() -> None:
    cache = SearchCache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c"), len(cache)) == (1, None, 3, 2)


def test_entries_last_five_minutes() -> None:
    clock = Clock()
    cache = SearchCache(2, clock)
    cache.put("a", 1)
    clock.now = SEARCH_SECONDS - 1
    assert cache.get("a") == 1
    clock.now = SEARCH_SECONDS
    assert cache.get("a") is None
    assert len(cache) == 0
    assert SEARCH_SECONDS == 300


def test_a_cache_of_size_zero_keeps_nothing() -> None:
    for size in (0, -1):
        cache = SearchCache(size)
        cache.put("a", 1)
        assert cache.get("a") is None
        assert len(cache) == 0


def test_the_hit_rate_is_counted_not_guessed() -> None:
    cache = SearchCache(2)
    assert cache.stats() == {"size": 0, "hits": 0, "misses": 0, "hit_rate": "0.0%"}
    cache.put("a", 1)
    for key in ("a", "a", "b"):
        cache.get(key)
    assert cache.stats() == {"size": 1, "hits": 2, "misses": 1, "hit_rate": "66.7%"}


def test_clearing_forgets_all() -> None:
    cache = SearchCache(2)
    cache.put("a", 1)
    cache.clear()
    assert cache.get("a") is None


def test_threads_share_a_cache_without_losing_count() -> None:
    cache = SearchCache(16)

    def work(thread: int) -> None:
        for n in range(2_000):
            cache.put((thread * n) % 40, n)
            cache.get(n % 40)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert cache.hits + cache.misses == 12_000
    assert len(cache) <= 16

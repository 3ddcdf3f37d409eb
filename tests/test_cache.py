"""The caches: bounded, timed, measured, safe among threads, and blind to what is kept under another mark."""

from concurrent.futures import ThreadPoolExecutor

from r3_lite.cache import (
    ANSWER_SECONDS,
    L1_SECONDS,
    L2_SECONDS,
    MAX_CHARACTERS,
    AnswerCache,
    Arranged,
    RecordCache,
    Wanted,
    footprint,
)
from r3_lite.store import Record


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def record(name: str, priority: str = "medium", content: str = "a text", user: str = "ada") -> Record:
    time = "2026-01-31T09:30:00.000000Z"
    return Record(1, name, user, content, "{}", priority, "hash", time, time, None, None)


def filled(size: int, *records: Record, clock: Clock | None = None) -> RecordCache:
    cache = RecordCache(size, clock or Clock())
    for one in records:
        cache.put(one, 1)
    return cache


def wanted(one: Record, mark: int = 1, accesses: int = 0, *, read: bool = True) -> Wanted:
    return Wanted(one.user_id, one.id, mark, accesses, one if read else None)


# Answers


def test_an_answer_is_got_under_its_mark_only() -> None:
    cache = AnswerCache(2)
    cache.put("a", 1, "answer")
    assert [cache.get("a", mark) for mark in (1, 2, 0)] == ["answer", None, None]
    assert (cache.counts.hits, cache.counts.misses) == (1, 2)


def test_the_least_recently_used_answer_makes_room_and_is_counted() -> None:
    cache = AnswerCache(2)
    cache.put("a", 1, "A")
    cache.put("b", 1, "B")
    assert cache.get("a", 1) == "A"
    cache.put("c", 1, "C")
    assert [cache.get(key, 1) for key in "abc"] == ["A", None, "C"]
    assert (len(cache), cache.counts.evictions) == (2, 1)


def test_a_new_answer_takes_the_place_of_the_old_one() -> None:
    cache = AnswerCache(2)
    cache.put("a", 1, "old")
    cache.put("a", 2, "new")
    assert (cache.get("a", 2), cache.get("a", 1), len(cache)) == ("new", None, 1)


def test_answers_last_five_minutes() -> None:
    clock = Clock()
    cache = AnswerCache(2, clock)
    cache.put("a", 1, "A")
    clock.now = 299
    assert cache.get("a", 1) == "A"
    clock.now = 300
    assert cache.get("a", 1) is None
    assert (len(cache), cache.counts.expiries, ANSWER_SECONDS) == (0, 1, 300)


def test_caches_of_size_zero_keep_nothing() -> None:
    for size in (0, -1):
        answers, records = AnswerCache(size), RecordCache(size)
        answers.put("a", 1, "A")
        assert not records.put(record("m"), 1)
        assert (answers.get("a", 1), records.get("ada", "m", 1)) == (None, None)
        assert (len(answers), len(records)) == (0, 0)
        assert (answers.counts.evictions, records.counts.evictions) == (0, 0)


def test_cleared_answers_are_gone() -> None:
    cache = AnswerCache(2)
    cache.put("a", 1, "A")
    cache.clear()
    assert cache.get("a", 1) is None


def test_the_hit_rate_is_counted_not_guessed() -> None:
    cache = AnswerCache(2)
    assert cache.counts.hit_rate == "0.0%"
    cache.put("a", 1, "A")
    for key in ("a", "a", "b"):
        cache.get(key, 1)
    assert cache.counts.hit_rate == "66.7%"
    assert (cache.counts + cache.counts).hits == 4


# Records


def test_a_record_is_got_by_its_user_under_its_mark_only() -> None:
    cache = filled(10, record("m"))
    assert cache.get("ada", "m", 1) == record("m")
    assert cache.get("ada", "m", 2) is None
    assert cache.get("bob", "m", 1) is None
    assert (cache.counts.hits, cache.counts.misses) == (1, 2)


def test_critical_and_high_begin_in_l1_and_the_others_in_l2() -> None:
    cache = filled(10, *(record(name, name) for name in ("critical", "high")))
    assert cache.sizes() == (2, 0)
    for name in ("medium", "low"):
        cache.put(record(name, name), 1)
    assert cache.sizes() == (2, 2)


def test_more_than_three_accesses_promote_to_l1() -> None:
    cache = filled(10, record("m", "low"))
    for _ in range(3):
        cache.get("ada", "m", 1)
    assert cache.sizes() == (0, 1)
    cache.get("ada", "m", 1)
    assert (cache.sizes(), cache.counts.promotions) == ((1, 0), 1)


def test_a_record_that_is_read_anew_after_a_write_keeps_its_accesses() -> None:
    cache = filled(10, record("m"))
    for mark in (1, 2, 3, 4):
        if cache.get("ada", "m", mark) is None:
            cache.put(record("m", content=f"text {mark}"), mark, accesses=1)
    assert cache.sizes() == (1, 0)
    assert cache.get("ada", "m", 4) == record("m", content="text 4")


def test_a_priority_that_rises_or_falls_moves_the_record() -> None:
    cache = filled(10, record("m", "low"))
    cache.put(record("m", "critical"), 2)
    assert (cache.sizes(), cache.counts.promotions) == ((1, 0), 1)
    cache.put(record("m", "low"), 3)
    assert (cache.sizes(), cache.counts.demotions) == ((0, 1), 1)


def test_l1_lasts_a_day_and_l2_a_week_after_it() -> None:
    clock = Clock()
    cache = filled(10, record("m", "high"), clock=clock)
    clock.now = 24 * 3600
    assert (cache.sizes(), cache.counts.demotions) == ((0, 1), 1)
    clock.now += 7 * 24 * 3600 - 1
    assert cache.sizes() == (0, 1)
    clock.now += 1
    assert (cache.sizes(), cache.counts.expiries) == ((0, 0), 1)
    assert (L1_SECONDS, L2_SECONDS) == (86_400, 604_800)


def test_both_tiers_share_one_bound_and_l2_makes_room_first() -> None:
    cache = filled(3, record("high", "high"), record("old"), record("new"))
    assert cache.put(record("newest"), 1)
    assert [cache.get("ada", name, 1) is not None for name in ("high", "old", "new", "newest")] == [
        True,
        False,
        True,
        True,
    ]
    assert (cache.sizes(), cache.counts.evictions) == ((1, 2), 1)


def test_without_l2_the_least_recently_used_of_l1_makes_room() -> None:
    cache = filled(2, record("a", "high"), record("b", "high"))
    cache.get("ada", "a", 1)
    assert cache.put(record("c", "high"), 1)
    assert [cache.get("ada", name, 1) is not None for name in "abc"] == [True, False, True]


def test_a_record_too_long_to_be_kept_takes_its_older_self_away() -> None:
    cache = filled(10, record("m", content="x" * (MAX_CHARACTERS - 2)))
    assert len(cache) == 1
    assert not cache.put(record("m", content="x" * (MAX_CHARACTERS - 1)), 2)
    assert len(cache) == 0


def test_forgetting_takes_one_record_or_all_of_a_user() -> None:
    cache = filled(10, record("a"), record("b", "high"), record("c"), record("d", user="bob"))
    cache.forget("ada", "a")
    assert len(cache) == 3
    cache.forget("ada")
    assert len(cache) == 1
    assert cache.get("bob", "d", 1) is not None


def test_arranging_holds_what_is_wanted_and_moves_nothing_the_second_time() -> None:
    cache = filled(10, record("kept"), record("used"), record("unwanted"), record("unwanted", user="bob"))
    goal = [
        wanted(record("kept"), mark=1, read=False),
        wanted(record("used"), mark=1, accesses=4, read=False),
        wanted(record("new", "high"), mark=1),
    ]
    size = footprint(record("unwanted"))
    assert cache.arrange(goal) == Arranged(promoted=1, demoted=0, expired=0, evicted=2, freed=2 * size, held=3)
    assert cache.sizes() == (2, 1)
    again = [one._replace(record=None) for one in goal]
    assert cache.arrange(again) == Arranged(promoted=0, demoted=0, expired=0, evicted=0, freed=0, held=3)


def test_arranging_drops_what_another_mark_made_outdated() -> None:
    cache = filled(10, record("gone"), record("changed"))
    done = cache.arrange([wanted(record("changed", content="anew"), mark=2)])
    assert (done.expired, done.evicted, done.held) == (1, 0, 1)
    assert cache.get("ada", "changed", 2) == record("changed", content="anew")


def test_arranging_takes_no_outdated_record_for_what_is_wanted() -> None:
    cache = filled(10, record("m"))
    assert cache.lacks(wanted(record("m"), mark=2))
    assert cache.arrange([wanted(record("m"), mark=2, read=False)]).held == 0
    assert len(cache) == 0


def test_arranging_keeps_to_the_bound_and_to_the_order() -> None:
    cache = filled(2)
    assert cache.arrange([wanted(record(name)) for name in "abc"]).held == 2
    assert [cache.get("ada", name, 1) is not None for name in "abc"] == [True, True, False]


def test_what_aged_while_nobody_looked_is_counted_when_arranging() -> None:
    clock = Clock()
    cache = filled(10, record("hot", "high"), record("old"), clock=clock)
    clock.now = 7 * 24 * 3600
    done = cache.arrange([])
    assert (done.demoted, done.expired, done.evicted) == (1, 1, 1)


def test_the_footprint_counts_all_that_is_held() -> None:
    short, long = filled(10, record("m")), filled(10, record("m", content="x" * 10_000))
    assert filled(10).footprint() == 0
    assert long.footprint() - short.footprint() == 10_000 - len("a text")
    answers = AnswerCache(2)
    answers.put("key", 1, {"text": ["x" * 10_000]})
    assert 10_000 < answers.footprint() < 11_000


def test_threads_share_the_caches_without_losing_count() -> None:
    answers, records = AnswerCache(16), RecordCache(16)

    def work(thread: int) -> None:
        for n in range(1_000):
            name = str((thread * n) % 40)
            answers.put(name, 1, n)
            answers.get(str(n % 40), 1)
            records.put(record(name, "high" if n % 3 else "low"), 1)
            records.get("ada", str(n % 40), 1)
            records.took(0.5)
            if n % 100 == 0:
                records.arrange([wanted(record(str(place))) for place in range(8)])
                records.forget("ada", name)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    assert answers.counts.hits + answers.counts.misses == 6_000
    assert records.counts.hits + records.counts.misses == records.counts.timed == 6_000
    assert records.counts.seconds == 3_000
    assert len(answers) <= 16
    assert len(records) <= 16

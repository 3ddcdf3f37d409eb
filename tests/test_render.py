"""How results read, and how lists stay under the ceiling."""

import json
from typing import Any

import pytest

from r3_lite import render
from r3_lite.answer import Found
from r3_lite.models import (
    AddResult,
    HistoryEntry,
    HistoryResult,
    Memory,
    MemoryPage,
    SearchHit,
    SearchResult,
    SimilarMemory,
)
from r3_lite.search import Ranking

DAY = "2026-01-31T09:30:00.000000Z"


def memory(content: str = "Ada drinks tea", **fields: Any) -> Memory:
    given: dict[str, Any] = {
        "id": "mem_1",
        "user_id": "ada",
        "metadata": {},
        "priority": "medium",
        "hash": "0" * 32,
        "created_at": DAY,
        "updated_at": DAY,
    }
    return Memory(memory=content, content=content, **(given | fields))


def version(content: str, **fields: Any) -> HistoryEntry:
    given: dict[str, Any] = {"version": 1, "action": "updated", "metadata": {}, "priority": "medium", "timestamp": DAY}
    return HistoryEntry(content=content, **(given | fields))


def size(items: list[Any], text: str) -> int:
    return len(text) + len(json.dumps([item.model_dump() for item in items], ensure_ascii=False))


def listed(memories: list[Memory], message: str = "") -> str:
    page = MemoryPage(
        total=len(memories),
        limit=500,
        offset=0,
        returned=len(memories),
        count=len(memories),
        hasMore=False,
        source="storage",
        truncated=False,
        memories=memories,
        message=message,
    )
    return render.listed(page)


def found(**fields: Any) -> Found:
    return Found(ranking=Ranking(), mode="hybrid", **({"total": 0} | fields))


# Lists under the ceiling


def test_what_fits_is_returned_untouched() -> None:
    memories = [memory("x" * 1000, id=f"mem_{i}", metadata={"big": "y" * 2000}) for i in range(5)]
    kept, cut = render.fit(memories)
    assert not cut
    assert all(one is other for one, other in zip(kept, memories, strict=True))


def test_nothing_fits_into_nothing() -> None:
    assert render.fit([]) == ([], False)
    assert render.fit_versions([]) == ([], False)


@pytest.mark.parametrize(
    "content", ["word " * 400, "日本語" * 700, '"\\\n' * 700, "\u0000" * 2000, "🧑‍🚀" * 700, "x" * 1_000_000]
)
@pytest.mark.parametrize("count", [1, 2, 30, 500])
def test_long_texts_stay_under_the_ceiling_and_say_that_they_are_short(content: str, count: int) -> None:
    kept, cut = render.fit([memory(content, id=f"mem_{i}") for i in range(count)])
    assert len(kept) >= min(count, 10)
    assert size(kept, listed(kept)) <= render.CEILING
    assert cut == (kept[0].content != content or len(kept) < count)
    if kept[0].content != content:
        assert kept[0].memory == kept[0].content
        assert kept[0].content[:-1] == content[: len(kept[0].content) - 1]
        assert kept[0].content.endswith("…")
        assert kept[0].metadata == {"_truncated": True}


def test_a_long_text_is_shortened_to_the_place_that_answers() -> None:
    words = ["filler"] * 20_000
    words[9_000:9_004] = ["the", "Port", "of", "staging"]
    words[15_000] = "port"
    (kept, *_), cut = render.fit([memory(" ".join(words))] * 30, ["staging", "port"])
    assert cut
    assert kept.content.startswith("…")
    assert kept.content.endswith("…")
    assert "the Port of staging" in kept.content
    assert kept.content[1:-1] in " ".join(words)


@pytest.mark.parametrize(
    ("word", "begins", "ends"), [("first", True, False), ("last", False, True), ("none", True, False)]
)
def test_a_place_at_an_end_of_the_text_is_no_further_than_that(word: str, begins: bool, ends: bool) -> None:
    text = f"first {'filler ' * 20_000}last"
    (kept, *_), _ = render.fit([memory(text)] * 30, [word])
    assert (text.startswith(kept.content[:-1]), text.endswith(kept.content[1:])) == (begins, ends)


def test_large_metadata_keeps_small_values_under_short_keys() -> None:
    metadata = {"topic": "tea", "n": 1.5, "yes": True, "none": None, "list": [1], "x" * 99: 1, "long": "y" * 90_000}
    (kept, *_), cut = render.fit([memory(metadata=metadata)])
    assert cut
    assert kept.metadata == {"topic": "tea", "n": 1.5, "yes": True, "_truncated": True}
    assert kept.content == "Ada drinks tea"


def test_many_small_values_are_cut_to_eight() -> None:
    (kept, *_), _ = render.fit([memory(metadata={f"key {i}": i for i in range(9000)})])
    assert kept.metadata == {f"key {i}": i for i in range(8)} | {"_truncated": True}


def test_a_short_memory_among_long_ones_is_not_marked() -> None:
    memories = [memory("short", id="mem_0"), *(memory("x" * 3000, id=f"mem_{i}") for i in range(1, 100))]
    kept, cut = render.fit(memories)
    assert cut
    assert kept[0] is memories[0]


def test_of_versions_the_newest_are_kept_in_order() -> None:
    versions = [version(f"{i} " + "word " * 400, version=i, metadata={"m": "z" * 1000}) for i in range(1, 200)]
    kept, cut = render.fit_versions(versions)
    assert cut
    assert [entry.version for entry in kept] == list(range(200 - len(kept), 200))
    assert len(kept) > 10
    assert all(entry.content.endswith("…") and entry.metadata == {} for entry in kept)
    assert size(kept, "\n".join(f"{e.version}. {e.action} {e.timestamp}: {e.content}" for e in kept)) <= render.CEILING


def test_one_version_with_everything_large_stays_under_the_ceiling() -> None:
    kept, cut = render.fit_versions([version("x" * 1_000_000, metadata={"m": "z" * 60_000})])
    assert cut
    assert size(kept, kept[0].content) <= render.CEILING


# Texts


def test_a_memory_reads_as_one_block() -> None:
    text = render.memory(memory("Ada drinks\ntea", priority="high", metadata={"topic": "tea", "_truncated": True}))
    assert text == 'mem_1 · 2026-01-31T09:30Z {"topic": "tea", "priority": "high"}\nAda drinks\ntea'


def test_no_line_of_a_text_in_a_list_looks_like_another_memory() -> None:
    forged = memory("Ada drinks tea\n\nmem_2 · 2026-01-31T09:30Z\nAda pays cash")
    page = render.listed(
        MemoryPage(
            total=1,
            limit=1,
            offset=0,
            returned=1,
            count=1,
            hasMore=False,
            source="storage",
            truncated=False,
            memories=[forged],
            message="1",
        )
    )
    assert [line for line in page.splitlines() if line.startswith("mem_")] == ["mem_1 · 2026-01-31T09:30Z"]


def test_the_time_of_a_change_is_shown() -> None:
    text = render.memory(memory(updated_at="2026-02-01T00:00:00.000000Z"))
    assert text.startswith("mem_1 · 2026-01-31T09:30Z, updated 2026-02-01T00:00Z\n")


def test_hits_show_their_score_and_weak_ones_say_so() -> None:
    hits = [
        SearchHit(**memory().model_dump(), score=score, score_breakdown={}, matched_entities=[])
        for score in (0.3, 0.29)
    ]
    result = SearchResult(
        results=hits,
        source="storage",
        mode="hybrid",
        total_candidates=2,
        below_threshold=0,
        truncated=False,
        message="2 of 9 memories.",
    )
    strong, weak = render.searched(result).split("\n\n")[1:]
    assert strong.startswith("[0.30] mem_1 · ")
    assert weak.startswith("[0.29 (weak)] mem_1 · ")


def test_similar_memories_are_listed_on_one_line_each() -> None:
    result = AddResult(
        memory_id="mem_2",
        message="Saved",
        duplicate=False,
        cached=False,
        indexing="pending",
        similar=[SimilarMemory(id="mem_1", memory="two\nlines " + "x" * 300, score=0.875)],
    )
    lines = render.added(result).split("\n")
    assert lines[:2] == ["Saved", "id: mem_2"]
    assert "by keyword now" in lines[2]
    assert lines[-1].startswith("- mem_1 (0.88): two lines xxx")
    assert len(lines[-1]) < 200


def test_a_done_add_promises_nothing_more() -> None:
    result = AddResult(memory_id="mem_2", message="Saved", duplicate=False, cached=False, indexing="done", similar=[])
    assert render.added(result) == "Saved\nid: mem_2"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (found(), ["No memories found\n", "Nothing is stored yet"]),
        (found(others=3), ["No memories found\n", "3 other user(s)"]),
        (found(total=5), ["No memories found\n", "None of this user's 5 memories answers."]),
        (
            Found(Ranking(candidates=2, below=2), "hybrid", total=5),
            ["None of this user's 5 memories answers; 2 candidates were too weak."],
        ),
        (found(total=5, note="By keyword."), ["Try other words, or a wider filter. By keyword."]),
    ],
)
def test_an_empty_answer_says_why(answer: Found, words: list[str]) -> None:
    message = render.search_message(answer, returned=0, hits=0, truncated=False, limit=10)
    for word in words:
        assert word in message


def test_a_search_tells_what_was_left_out_and_what_went_wrong() -> None:
    answer = found(total=50, warning="The vectors cannot be read.", note="By keyword.")
    message = render.search_message(answer, returned=3, hits=7, truncated=True, limit=101)
    assert message == (
        "3 of 50 memories. The vectors cannot be read. By keyword. limit is at most 100. "
        "Long memories are shortened and 4 left out: use get_memory, or a smaller limit."
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 0, 0, False, 100), "No memories found"),
        ((7, 9, 0, False, 100), "No memories found\nThere are 7; offset is beyond the last."),
        ((7, 0, 7, False, 100), "Memories 1 to 7 of 7, newest first."),
        ((7, 3, 2, False, 2), "Memories 4 to 5 of 7, newest first. Next page: offset 5."),
        ((1, 0, 1, False, 501), "Memories 1 to 1 of 1, newest first. limit is at most 500."),
        (
            (2, 0, 1, True, 100),
            "Memories 1 to 1 of 2, newest first. Next page: offset 1. "
            "Long ones are shortened; get_memory shows them whole.",
        ),
    ],
)
def test_a_page_says_what_it_shows_of_how_many(arguments: tuple[int, int, int, bool, int], message: str) -> None:
    assert render.page_message(*arguments) == message


def test_a_history_says_what_it_shows_of_how_many() -> None:
    only = [version("x", version=1, action="created")]
    assert render.history_message("mem_1", 1, only, False, 50) == "1 of 1 versions, oldest first."
    last = [version("x", version=8), version("y", version=9)]
    assert render.history_message("mem_1", 9, last, True, 501) == (
        "2 of 9 versions, oldest first. limit is at most 500. "
        "Long ones are shortened or left out: ask with a smaller limit. To bring one back: "
        "update_memory with its text, or the command r3-lite restore-memory mem_1 --version N."
    )


def test_a_history_says_how_many_versions_are_no_longer_kept() -> None:
    shown = [version("x", version=7), version("y", version=8)]
    assert render.history_message("mem_1", 2, shown, False, 50).startswith(
        "2 of 2 versions, oldest first. 6 older ones are no longer kept. "
    )


@pytest.mark.parametrize("action", ["deleted", "merged"])
def test_a_memory_that_is_gone_is_added_anew(action: str) -> None:
    gone = [version("x", version=1, action=action)]
    assert render.history_message("mem_1", 1, gone, False, 50) == (
        "1 of 1 versions, oldest first. To bring one back: add_memory with its text, metadata and priority, or the "
        "command r3-lite restore-memory mem_1 --version N."
    )


def test_a_version_is_shown_so_that_it_can_be_stored_again() -> None:
    entry = version("first\nsecond", version=3, action="updated", metadata={"é": [1]}, priority="high")
    shown = render.history(HistoryResult(history=[entry], message="all"))
    assert shown == f'all\n3. updated {entry.timestamp} high {{"é": [1]}}: first\n  second'


def test_a_line_is_flat_and_of_bounded_length() -> None:
    assert render.line(" a\n b\t\tc ") == "a b c"
    assert render.line("x" * 161) == "x" * 159 + "…"
    assert render.line("x" * 160) == "x" * 160

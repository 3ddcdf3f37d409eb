"""How duplicates are shown: what fits, with the true numbers."""

import json

from r3_lite.duplicates_text import SHOWN_DUPLICATES, SHOWN_TEXT, deduplicated, result, whole
from r3_lite.merging import Duplicate, Group, LookAlike, Member, Merged, Plan
from r3_lite.render import CEILING


def member(n: int, text: str = "The key is under the mat") -> Member:
    return Member(n, f"mem_{n:023d}", text, b"", len(text))


def groups(count: int, size: int = 1, text: str = "The key is under the mat") -> tuple[Group, ...]:
    return tuple(
        Group(member(n * 1000, text), tuple(Duplicate(member(n * 1000 + k + 1, text), 0.875) for k in range(size)))
        for n in range(count)
    )


def test_a_preview_says_what_would_go_and_how_to_go_on() -> None:
    plan = Plan(groups(1), (LookAlike(member(7, "port 1"), member(8, "port 2"), 0.9),), 2, True)
    found = result(plan)
    assert (found.dry_run, found.duplicates_found, found.deleted) == (True, 1, 0)
    assert deduplicated(found).splitlines() == [
        "1 duplicates in 1 groups would be merged, each into the oldest that says the same. "
        "Repeat with dry_run: false to merge just these. "
        "2 memories look alike but may say different things, or others said them (1 pairs shown); they stay.",
        f"- {member(0).id}: The key is under the mat",
        f"  would merge {member(1).id} (0.88): The key is under the mat",
        f"~ {member(7).id} (0.90): port 1",
        f"  {member(8).id}: port 2",
    ]


def test_a_live_run_says_what_went_and_what_did_not() -> None:
    plan = Plan(groups(3), (), 0, True)
    found = result(plan, Merged(plan.groups[:2], 1, 4, ()))
    assert (found.dry_run, found.duplicates_found, found.deleted, len(found.groups)) == (False, 3, 2, 2)
    assert "1 were left alone: their group changed meanwhile." in found.message
    assert "4 metadata values differed" in found.message


def test_a_live_run_shows_the_look_alikes_that_there_still_are() -> None:
    gone, there = (LookAlike(member(n, f"port {n}"), member(n + 1, f"port {n + 1}"), 0.9) for n in (1, 3))
    found = result(Plan((), (gone, there), 4, True), Merged((), 0, 0, (there,)))
    assert [pair.id for pair in found.look_alikes] == [member(3).id]
    assert "2 memories look alike" in found.message
    assert "(1 pairs shown)" in found.message


def test_nothing_found_is_said_in_three_words() -> None:
    assert result(Plan((), (), 0, True)).message == "No duplicates found."


def test_a_search_that_was_cut_short_is_no_secret() -> None:
    assert "There may be more of these" in result(Plan((), (), 0, False)).message


def test_large_answers_stay_under_the_ceiling_and_say_how_many_there_are() -> None:
    text = 'A "quoted" \\ text of some length\n' * 20
    alike = tuple(LookAlike(member(n, text), member(n + 1, text), 0.9) for n in range(5_000))
    found = result(Plan(groups(5_000, 3, text), alike, 5_001, True))
    size = len(json.dumps(found.model_dump(), ensure_ascii=False)) + len(deduplicated(found))
    assert CEILING / 2 < size <= CEILING
    assert found.groups
    assert found.look_alikes
    assert found.duplicates_found == 15_000
    assert f"({len(found.look_alikes)} of 5000 pairs shown)" in found.message
    assert f"{len(found.groups)} groups are shown" in found.message
    assert all(len(one.primary.memory) <= SHOWN_TEXT for one in found.groups)


def test_one_large_group_stays_under_the_ceiling_too() -> None:
    found = result(Plan(groups(1, 10_000, "x" * 300), (), 0, True))
    assert len(found.groups[0].duplicates) == SHOWN_DUPLICATES
    assert len(json.dumps(found.model_dump())) + len(deduplicated(found)) <= CEILING


def test_the_command_line_gets_everything() -> None:
    found = whole(Plan(groups(3_000), (), 0, True))
    assert len(found.groups) == 3_000

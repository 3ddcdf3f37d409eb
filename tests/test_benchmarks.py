"""The arithmetic of the benchmarks, on examples worked out by hand."""

import json
from datetime import datetime
from math import log2
from pathlib import Path

import pytest

from benchmarks import duplicates, locomo, notes, plain_notes
from benchmarks.bars import at_least, at_most
from benchmarks.coherence import Look, Row, all_in_time, in_time, judge
from benchmarks.locomo import Conversation, Turn
from benchmarks.retrieval import Asked, find_twins, gold_ranks, scores, summary
from r3_lite.dedupe import group, wording

LOCOMO = [
    {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ann",
            "speaker_b": "Bob",
            "session_10_date_time": "9:05 am on 1 Sep, 2023",
            "session_10": [{"speaker": "Bob", "dia_id": "D10:1", "text": "Hello!"}],
            "session_2_date_time": "1:56 pm on 8 May, 2023",
            "session_2": [
                {"speaker": "Ann", "dia_id": "D2:1", "text": " I bought a kayak. ", "blip_caption": "a red kayak"},
                {"speaker": "Bob", "dia_id": "D2:2", "text": "hello"},
            ],
        },
        "qa": [
            {"question": "What did Ann buy?", "evidence": ["D2:1"], "category": 4, "answer": "a kayak"},
            {"question": "Who greets?", "evidence": ["D2:2; D10:1", "D:10:1"], "category": 1, "answer": "Bob"},
            {"question": "What is said elsewhere?", "evidence": ["D99:1"], "category": 3, "answer": "?"},
            {"question": "What is never said?", "category": 5, "adversarial_answer": "?"},
        ],
    }
]


@pytest.fixture
def conversation(tmp_path: Path) -> Conversation:
    file = tmp_path / "locomo.json"
    file.write_text(json.dumps(LOCOMO), encoding="utf-8")
    (only,) = locomo.load(file)
    return only


def test_recall_is_the_share_of_gold_turns_among_the_first_k() -> None:
    measured = scores([0, 4, 9, None])
    assert [measured[f"R@{k}"] for k in (1, 5, 10, 20)] == [0.25, 0.5, 0.75, 0.75]


def test_a_hit_is_any_gold_turn_among_the_first_k() -> None:
    measured = scores([7, None])
    assert [measured[f"hit@{k}"] for k in (1, 5, 10, 20)] == [0, 0, 1, 1]


def test_ndcg_discounts_by_the_logarithm_of_the_place() -> None:
    # Second and fourth place of two gold turns: gains 1/log2(3) + 1/log2(5), at best 1/log2(2) + 1/log2(3).
    expected = (1 / log2(3) + 1 / log2(5)) / (1 + 1 / log2(3))
    assert expected == pytest.approx(0.65092, abs=5e-6)
    assert scores([1, 3])["nDCG@10"] == pytest.approx(expected)


def test_ndcg_is_one_for_perfect_order_and_stops_at_ten() -> None:
    assert scores([1, 0, 2])["nDCG@10"] == pytest.approx(1)
    assert scores([10])["nDCG@10"] == 0
    assert scores(list(range(12)))["nDCG@10"] == pytest.approx(1)


def test_mrr_is_the_inverse_place_of_the_first_gold_turn() -> None:
    assert scores([None, 3, 1])["MRR"] == 0.5
    assert scores([None])["MRR"] == 0


def test_gold_is_found_through_a_turn_of_equal_text() -> None:
    twins = {"a": "a", "b": "b", "c": "a"}
    assert gold_ranks({"c", "b"}, ["x", "a"], {**twins, "x": "x"}) == [None, 1]


def test_the_first_of_two_equal_results_counts() -> None:
    assert gold_ranks({"c"}, ["a", "c"], {"a": "a", "c": "a"}) == [0]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1:56 pm on 8 May, 2023", datetime(2023, 5, 8, 13, 56)),
        ("12:09 am on 13 September, 2023", datetime(2023, 9, 13, 0, 9)),
        ("10:31 a.m. on  5 Jan., 2022", datetime(2022, 1, 5, 10, 31)),
    ],
)
def test_session_dates_are_read(text: str, moment: datetime) -> None:
    assert locomo.session_date(text) == moment


def test_what_is_no_session_date_is_refused() -> None:
    with pytest.raises(ValueError, match="not a session date"):
        locomo.session_date("8 May 2023")


def test_sessions_are_ordered_by_number_not_by_name(conversation: Conversation) -> None:
    assert [turn.id for turn in conversation.turns] == ["conv-1/D2:1", "conv-1/D2:2", "conv-1/D10:1"]


def test_a_turn_becomes_an_import_item_of_its_words_alone(conversation: Conversation) -> None:
    assert locomo.import_items(conversation)[0] == {
        "content": "I bought a kayak.",
        "metadata": {"author": "Ann", "session_id": "conv-1/2", "dia_id": "conv-1/D2:1"},
        "created_at": "2023-05-08T13:56:00",
    }


def test_turns_without_words_are_not_imported() -> None:
    turn = Turn("c/D1:1", "c/1", datetime(2023, 5, 8), "Ann", "")
    assert locomo.import_items(Conversation("c", (turn,), ())) == []


def test_evidence_is_read_in_every_spelling_and_questions_without_it_are_left_out(conversation: Conversation) -> None:
    assert [(question.category, set(question.gold)) for question in conversation.questions] == [
        (4, {"conv-1/D2:1"}),
        (1, {"conv-1/D2:2", "conv-1/D10:1"}),
    ]


def test_turns_that_an_import_merges_are_twins(conversation: Conversation) -> None:
    assert find_twins([conversation]) == {
        "conv-1/D2:1": "conv-1/D2:1",
        "conv-1/D2:2": "conv-1/D2:2",
        "conv-1/D10:1": "conv-1/D2:2",
    }


def test_the_adversarial_category_is_not_in_the_overall_mean(conversation: Conversation) -> None:
    first, second = conversation.questions
    adversarial = locomo.Question("?", first.gold, 5)
    asked = [
        Asked("conv-1", question, [], scores(ranks))
        for question, ranks in ((first, [0]), (second, [0, None]), (adversarial, [None]))
    ]
    groups = summary(asked)
    assert groups["all (1-4)"]["R@5"] == 0.75
    assert groups["all (1-4)"]["questions"] == 2
    assert groups["5 adversarial"]["R@5"] == 0


def test_notes_are_distinct_and_the_same_for_the_same_seed() -> None:
    made = notes.notes(500, seed=3)
    assert len(set(made)) == 500
    assert made == notes.notes(500, seed=3)
    assert made != notes.notes(500, seed=4)


def test_bars_are_cleared_at_the_limit_and_open_without_a_figure() -> None:
    assert at_most("a", 2.0, 2.0).passed is True
    assert at_most("a", 2.1, 2.0).passed is False
    assert at_least("a", 0.72, 0.72).passed is True
    assert at_least("a", 0.71, 0.72).passed is False
    assert at_least("a", None, 0.72).passed is None


def test_notes_are_scored_by_the_place_of_the_right_one_and_by_how_scores_part() -> None:
    asked = [
        plain_notes.Asked("q", "a", ("a", "b"), 0.8),
        plain_notes.Asked("q", "b", ("c", "d", "e", "b"), 0.5),
        plain_notes.Asked("q", "z", ("a",), 0.2),
    ]
    measured = plain_notes.figures(asked, [0.2, 0.6])
    assert measured == pytest.approx(
        {
            "R@1": 1 / 3, "R@3": 1 / 3, "R@10": 2 / 3, "MRR": (1 + 1 / 4) / 3,
            "median best score, answerable": 0.5, "median best score, unanswerable": 0.4,
            # .8 is above both, .5 above one, .2 beside one and below the other.
            "told apart": 3.5 / 6,
        }
    )  # fmt: skip


def test_every_question_about_the_plain_notes_has_its_note() -> None:
    data = json.loads(plain_notes.DATA.read_text(encoding="utf-8"))
    ids = [note["id"] for note in data["notes"]]
    assert len(ids) == len(set(ids)) >= 120
    assert {question["gold"] for question in data["questions"]} <= set(ids)
    assert len({question["question"] for question in data["questions"]}) >= 100
    assert len(data["unanswerable"]) >= 15


def test_pairs_are_judged_by_precision_and_recall() -> None:
    pairs = [
        {"a": "Ana left", "b": "ana left!", "same": True, "kind": "case"},
        {"a": "Ana left", "b": "Ana has gone", "same": True, "kind": "other words"},
        {"a": "Ana left", "b": "Bo left", "same": False, "kind": "name"},
        {"a": "Ana left", "b": "Ana left", "same": False, "kind": "marked wrongly"},
    ]
    assert duplicates.classify(pairs) == {
        "pairs": 4,
        "precision": 1 / 2,
        "recall": 1 / 2,
        "wrong": 1,
        "merged": {
            "case": "1 of 1",
            "marked wrongly (differs)": "1 of 1",
            "name (differs)": "0 of 1",
            "other words": "0 of 1",
        },
    }


def test_the_notes_to_search_for_duplicates_are_the_same_each_time() -> None:
    made = duplicates.notes(200)
    assert made == duplicates.notes(200)
    assert len(made) == 200
    assert len(set(made)) > 150
    assert group([wording(note) for note in made])


OLD, NEW, LATER = [(time, f"text of {time}", {"key": 1}) for time in ("10:01", "10:02", "10:03")]


@pytest.mark.parametrize(
    ("told", "before", "after", "right"),
    [
        (OLD, OLD, OLD, True),
        (NEW, OLD, LATER, True),
        (OLD, NEW, NEW, False),
        (OLD, NEW, LATER, False),
        (LATER, OLD, NEW, False),
        (None, OLD, OLD, False),
        (None, OLD, NEW, False),
        (None, OLD, None, True),
        (None, None, NEW, True),
        (OLD, None, None, True),
    ],
)
def test_an_answer_is_in_time_if_the_file_gave_it_between_two_looks(
    told: Row | None, before: Row | None, after: Row | None, right: bool
) -> None:
    assert in_time(told, before, after) is right


def test_a_memory_that_was_gone_before_the_call_must_not_come_back() -> None:
    before, after = Look(1, {"a": OLD}, frozenset({"b"})), Look(1, {"a": OLD}, frozenset({"b", "c"}))
    assert all_in_time({"a": OLD, "c": NEW}, before, after, complete=True)
    assert not all_in_time({"a": OLD, "b": NEW}, before, after, complete=True)
    assert not all_in_time({}, before, after, complete=True)
    assert all_in_time({}, before, after, complete=False)


def test_lost_rows_updates_and_wrong_counts_are_seen() -> None:
    report = {
        "done": {"get": 3, "list": 1, "list from cache": 1},
        "added": ["a", "b", "c"],
        "deleted": ["c"],
        "keys": [("a", "key"), ("a", "other")],
        "read": {"a": 2},
        "faults": ["stale: get", "failed: add_memory STORAGE_BUSY"],
        "stats": {"parts": {"records": {"hits": 1, "misses": 2}, "answers": {"hits": 1, "misses": 0}}},
    }
    figures = judge([report], {"a": OLD, "x": OLD}, {"a": 2})
    # b is lost, x was never added, and so is one key of a.
    assert (figures["lost"], figures["stale"], figures["failed"], figures["wrong statistics"]) == (3, 1, 1, [])
    wrong = judge([{**report, "done": {"get": 2, "search": 2}}], {"a": OLD}, {"a": 3})["wrong statistics"]
    assert wrong == ["records", "answers", "answers from the cache", "accesses"]

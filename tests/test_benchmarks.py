"""The arithmetic of the benchmarks, on examples worked out by hand."""

import json
from datetime import datetime
from math import log2
from pathlib import Path

import numpy as np
import pytest

from benchmarks import duplicates, endurance, locomo, notes, peer_kinds, peers, plain_notes, plots, scale
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


def test_pairs_are_distinct_notes_with_a_question_that_shares_their_names() -> None:
    made = notes.pairs(200)
    assert made == notes.pairs(200)
    assert len({note for note, _ in made}) == 200
    for note, question in made:
        names = {word for word in note.replace("'", " ").split() if word[0].isupper() or word[0].isdigit()}
        assert any(name.strip(".,;:") in question for name in names), question
        assert not set("{}") & set(note + question)


def test_every_peer_is_given_as_many_notes_with_every_answer_among_them() -> None:
    given = peers.material(400, questions=30, adds=20)
    assert given == peers.material(400, questions=30, adds=20)
    assert len(given.held) == len(set(given.held)) == 400
    assert {note for _, note, _ in given.asked} <= set(given.held)
    assert [origin for *_, origin in given.asked].count(peers.PLAIN) == 30
    assert len(given.asked) == 60
    assert not set(given.fresh) & set(given.held)


def test_peers_have_names_of_their_own_and_an_equal_of_ours_beside_them() -> None:
    assert len({peer.name for peer in peer_kinds.PEERS}) == len(peer_kinds.PEERS)
    by_name = {peer.name: peer for peer in peer_kinds.PEERS}
    assert {over: by_name[name].over for over, name in peers.OURS.items()} == {over: over for over in peers.OURS}


def peer_row(over: str, search: float, add: float, recall: float, mb: float, start: float) -> dict[str, object]:
    return {
        "over": over,
        "embeds": True,
        "product": True,
        "search": {"p50": search},
        "add": {"p50": add},
        "recall@10": {peers.PLAIN: recall},
        "resident_mb": mb,
        "start_seconds": start,
    }


def test_servers_are_held_against_servers_and_libraries_against_libraries() -> None:
    rows = {
        "r3-lite": peer_row("stdio", 10, 5, 0.9, 200, 1),
        "r3-lite engine": peer_row("in process", 6, 3, 0.9, 150, 1),
        "a server": peer_row("stdio", 20, 20, 0.9, 100, 2),
        "a library": peer_row("in process", 5, 15, 0.8, 300, 1),
        "words alone": {**peer_row("stdio", 1, 1, 0.1, 10, 1), "embeds": False},
        "put together": {**peer_row("in process", 1, 1, 0.9, 10, 1), "product": False},
    }
    judged = {bar.name: (bar.figure, bar.passed) for bar in peers.bars({"peers": rows})}
    assert judged == {
        "search p50, r3-lite / a server": (0.5, True),
        "add p50, a server / r3-lite": (4, True),
        "recall@10 of plain notes, r3-lite − a server": (0, True),
        "resident, r3-lite / a server": (2, False),
        "start-up, r3-lite / a server": (0.5, True),
        "search p50, r3-lite engine / a library": (1.2, False),
        "add p50, a library / r3-lite engine": (5, True),
        "recall@10 of plain notes, r3-lite engine − a library": (pytest.approx(0.1), True),
        "resident, r3-lite engine / a library": (0.5, True),
        "start-up, r3-lite engine / a library": (1, True),
    }


def test_answers_of_peers_are_read_as_objects_or_as_text() -> None:
    text = '{"results": [{"text": "Ada likes tea."}]}'
    plain = {"content": [{"type": "text", "text": text}]}
    wrapped = {**plain, "structuredContent": {"result": text}}
    whole = {"content": [], "structuredContent": {"results": [{"text": "Ada likes tea."}]}}
    read = peer_kinds.listed("results", "text")
    assert read(plain) == read(wrapped) == read(whole) == ["Ada likes tea."]
    assert read({"content": [{"type": "text", "text": "nothing found"}]}) == []


def test_a_note_is_held_where_an_answer_shows_it_whole() -> None:
    assert peers.holds(["1. Ada likes tea.\n2. Bo does not."], "Ada likes tea.")
    assert not peers.holds(["Ada likes", "tea."], "Ada likes tea.")


def test_a_search_for_substrings_is_asked_the_longest_word() -> None:
    assert peer_kinds.longest_word("What must Ada Dorstelström not eat?") == "Dorstelström"


def test_a_line_that_is_no_object_is_passed_over() -> None:
    assert peer_kinds.parsed(b"Loading weights: 100%") == {}
    assert peer_kinds.parsed(b"[1]") == {}
    assert peer_kinds.parsed(b'{"id": 1}') == {"id": 1}


def test_the_nearest_of_all_are_the_same_in_one_block_and_in_many() -> None:
    rng = np.random.default_rng(0)
    rows, asked = (rng.normal(size=(size, 8)).astype(np.float32) for size in (90, 3))
    numbers = list(range(100, 190))
    blocks = [(numbers[start : start + 25], rows[start : start + 25]) for start in range(0, 90, 25)]
    expected = [{100 + int(row) for row in np.argsort(-(rows @ one))[: scale.NEAREST]} for one in asked]
    assert scale.nearest_of_all([(numbers, rows)], asked) == expected
    assert scale.nearest_of_all(blocks, asked) == expected


def scale_column(size: int, search: float, filtered: float, recall: float, mb: float) -> dict[str, object]:
    costs = {scale.SEARCH: {"ms": search, "cpu_ms": search}, scale.FILTERED: {"ms": filtered}, "add": {"ms": 2.0}}
    return {"memories": size, "costs": costs, "recall@20": recall, "server_mb": mb}


def test_sizes_are_held_to_the_bars_they_have() -> None:
    columns = [
        scale_column(1_000, 99, 99, 0.5, 999),
        scale_column(10_000, 5, 6, 0.99, 999),
        scale_column(100_000, 16, 4, 0.98, 300),
    ]
    assert [(bar.limit, bar.passed) for bar in scale.bars(columns)] == [
        (6, True),
        (5, False),
        (0.99, True),
        (15, False),
        (16, True),
        (0.99, False),
        (300, True),
    ]


def test_memory_is_flat_when_the_last_third_is_near_the_second() -> None:
    assert endurance.thirds([1, 3, 4, 4, 5, 6, 7]) == (2, 4, 6)
    figures = {"done": {"search": 2}, "thirds_mb": {"first": 90, "second": 100, "last": 103}}
    assert [bar.passed for bar in endurance.bars(figures)] == [True]
    figures["thirds_mb"] = {"first": 90, "second": 100, "last": 104}
    assert [bar.passed for bar in endurance.bars(figures)] == [False]


def test_operations_add_as_much_as_they_delete() -> None:
    assert sum(endurance.SHARES.values()) == pytest.approx(1)
    assert endurance.SHARES["add"] == endurance.SHARES["delete"]


def test_lines_go_through_what_was_measured_by_size() -> None:
    columns = [scale_column(10_000, 5, 6, 1, 1), scale_column(1_000, 2, 3, 1, 1)]
    lines = plots.scale_lines(columns, (scale.SEARCH, "add", "of no store"))
    assert lines == {scale.SEARCH: [(1_000, 2), (10_000, 5)], "add": [(1_000, 2.0), (10_000, 2.0)]}


def test_peers_are_drawn_only_with_two_sizes() -> None:
    row = {"search": {"p50": 7.0}}
    small = {"memories": 300, "peers": {"a": row, "b": row}}
    assert plots.peer_lines([small]) == {}
    assert plots.peer_lines([{"memories": 3_000, "peers": {"a": row}}, small]) == {"a": [(300, 7.0), (3_000, 7.0)]}

"""The ranking: scores that mean something, sums that add up, ties that are broken the same way each time."""

import math
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from r3_lite.engine import Engine
from r3_lite.query import parse_query
from r3_lite.search import (
    COSINE_FLOOR,
    RELATIVE_FLOOR,
    WEAK,
    WEIGHTS,
    Breakdown,
    Candidates,
    Ranking,
    Weights,
    pool,
    rank,
)
from r3_lite.store import Record
from r3_lite.text import text_hash

# Nothing but meaning and keywords, so that sums can be computed by hand.
BARE = Weights(
    semantic=0.6, note_semantic=0.6, context=0.0, keyword=0.4, coverage=0.0,
    author=0.0, date=0.0, time_word=0.0, asking=0.0,
    priority=0.0, access=0.0, recency=0.0, latest=0.0, newest=0.0, answer=0.0, following=0.0, session=0.0,
)  # fmt: skip


def memory(seq: int, content: str = "", day: int = 1, **more: Any) -> Record:
    content, created = content or f"text {seq}", f"2024-01-{day:02}T00:00:00.000000Z"
    plain = Record(seq, f"mem_{seq}", "u", content, "{}", "medium", f"h{seq}", created, created, None, None)
    return plain._replace(**more)


def ranked(
    query: str,
    memories: list[Record],
    cosines: dict[int, float] | None = None,
    bm25: dict[int, float] | None = None,
    weights: Weights = BARE,
    **more: Any,
) -> Ranking:
    limits = {name: more.pop(name) for name in ("limit", "threshold") if name in more}
    candidates = Candidates({m.seq: m for m in memories}, cosines or {}, bm25 or {}, **more)
    return rank(parse_query(query), candidates, **{"limit": 10, **limits}, weights=weights)


def order(ranking: Ranking) -> list[int]:
    return [hit.record.seq for hit in ranking.hits]


# The sum


def test_meaning_and_keywords_are_scaled_by_their_best_and_added() -> None:
    memories = [memory(1, "port of call"), memory(2, "a port")]
    found = ranked("port", memories, {1: 0.8, 2: 0.4}, {1: 2.0, 2: 4.0})
    parts = {hit.record.seq: hit.breakdown for hit in found.hits}
    assert parts[1].total == pytest.approx(0.6 * 1 + 0.4 * 0.5)
    assert parts[2].total == pytest.approx(0.6 * 0.5 + 0.4 * 1)
    assert order(found) == [1, 2]


def test_the_best_score_says_how_well_the_best_answers_and_the_others_follow_in_proportion() -> None:
    found = ranked("port", [memory(1), memory(2)], {1: 0.8, 2: 0.4})
    assert [hit.score for hit in found.hits] == pytest.approx([0.8, 0.4])


def test_words_prove_the_more_the_more_of_them_there_are() -> None:
    memories = [memory(1, "the car is red and parked outside", hash="other")]
    # Half for one term, three quarters for two, of which it holds one; seven eighths of three that it holds.
    for query, proved in (("car", 0.5), ("car bicycle", 0.375), ("red car outside", 0.875)):
        assert ranked(query, memories, {1: 0.1}, {1: 2.0}).hits[0].score == pytest.approx(proved)


def test_the_same_text_proves_all() -> None:
    memories = [memory(1, "car", hash=text_hash("Car!"))]
    assert ranked("car", memories, {1: 0.1}, {1: 2.0}).hits[0].score == 1


def test_the_parts_that_a_client_sees_are_those_that_are_not_zero() -> None:
    (hit,) = ranked("port", [memory(1)], {1: 0.8}).hits
    assert hit.breakdown.shown() == {"semantic": 0.6, "cosine": 0.8, "rank": 0.6, "scale": 1.3333}
    assert Breakdown().shown() == {"rank": 0, "scale": 0}


@pytest.mark.parametrize(
    ("query", "better", "weight"),
    [
        ("what did Ana say", {"author": "Ana"}, {"author": 0.1}),
        ("what happened on 2024-01-05", {"created_at": "2024-01-05T12:00:00.000000Z"}, {"date": 0.1}),
        ("when did it happen", {"content": "it happened last Monday"}, {"time_word": 0.1}),
        ("the latest news", {"created_at": "2024-01-30T12:00:00.000000Z"}, {"latest": 0.2}),
        ("anything", {"priority": "critical"}, {"priority": 0.1}),
    ],
)
def test_what_the_query_asks_for_besides_lifts_a_memory(
    query: str, better: dict[str, Any], weight: dict[str, float]
) -> None:
    memories = [memory(1, **better), memory(2, day=2)]
    cosines = {1: 0.50, 2: 0.51}
    assert order(ranked(query, memories, cosines, weights=BARE)) == [2, 1]
    parsed = parse_query(query, ["Ana"])
    lifted = rank(parsed, Candidates({m.seq: m for m in memories}, cosines), limit=5, weights=replace(BARE, **weight))
    assert order(lifted) == [1, 2]


def test_a_low_priority_lowers_a_memory() -> None:
    memories = [memory(1, priority="low"), memory(2)]
    assert order(ranked("x", memories, {1: 0.51, 2: 0.50}, weights=replace(BARE, priority=0.1))) == [2, 1]


def test_keywords_count_as_much_as_the_best_covered_text_proves() -> None:
    """A term that d of n texts hold weighs log(1 + n / (1 + d)): here two, one and none of two texts."""
    memories = [memory(1, "the port siren"), memory(2, "a port")]
    weights = replace(BARE, semantic=0, coverage=0.3)
    found = ranked("port siren pier", memories, bm25={1: 3.0, 2: 1.5}, weights=weights)
    port, siren, pier = math.log(1 + 2 / 3), math.log(1 + 2 / 2), math.log(1 + 2 / 1)
    best, other = ((port + siren) / (port + siren + pier), port / (port + siren + pier))
    parts = {hit.record.seq: hit.breakdown for hit in found.hits}
    assert (parts[1].coverage, parts[2].coverage) == pytest.approx((0.3 * best, 0.3 * other))
    assert (parts[1].keyword, parts[2].keyword) == pytest.approx((0.4 * best, 0.2 * best))


def test_the_name_of_an_author_in_the_query_covers_nothing() -> None:
    memories = [memory(1, "Ana, hello", author="Ben"), memory(2, "my new port", author="Ana")]
    query = parse_query("which port does Ana use", ["Ana", "Ben"])
    weights = replace(BARE, coverage=0.3)
    found = rank(query, Candidates({m.seq: m for m in memories}, bm25={1: 1.0, 2: 1.0}), limit=5, weights=weights)
    parts = {hit.record.seq: hit.breakdown for hit in found.hits}
    # "port" one of two texts holds, "use" none: log(1 + 2/2) of that and log(1 + 2/1).
    assert parts[2].coverage == pytest.approx(0.3 * math.log(2) / (math.log(2) + math.log(3)))
    assert parts[1].coverage == 0


def test_a_memory_that_ends_in_a_question_loses() -> None:
    memories = [memory(1, "Which port is it? "), memory(2, "It is a port."), memory(3, "何番ですか？")]
    found = ranked("x", memories, {1: 0.5, 2: 0.5, 3: 0.5}, weights=replace(BARE, asking=0.1))
    parts = {hit.record.seq: hit.breakdown.asking for hit in found.hits}
    assert parts == {2: 0.0, 1: -0.1, 3: -0.1}


def test_a_memory_that_is_often_asked_for_gains_a_little() -> None:
    found = ranked(
        "x", [memory(1), memory(2), memory(3)], {1: 0.5, 2: 0.5, 3: 0.5},
        weights=replace(BARE, access=0.02), accesses={1: 64, 2: 7, 8: 9},
    )  # fmt: skip
    parts = {hit.record.seq: hit.breakdown.access for hit in found.hits}
    assert parts == pytest.approx({1: 0.02, 2: 0.02 * 3 / math.log2(65), 3: 0.0})


def test_an_answer_gains_from_its_question_a_turn_from_the_next_and_from_the_best_of_the_session() -> None:
    memories = [memory(1, "which port?", session="s"), memory(2, session="s"), memory(3, session="s"), memory(4)]
    cosines = {1: 0.8, 2: 0.4, 3: 0.2, 4: 0.4}
    weights = replace(BARE, answer=0.1, following=0.2, session=0.3)
    around = {1: (None, 2), 2: (1, 3), 3: (2, None)}
    found = ranked("x", memories, cosines, weights=weights, neighbours=around)
    own = {1: 0.6, 2: 0.3, 3: 0.15, 4: 0.3}
    parts = {hit.record.seq: hit.breakdown for hit in found.hits}
    assert parts[1].total == pytest.approx(own[1] + 0.2 * own[2] + 0.3 * own[1])
    assert parts[2].total == pytest.approx(own[2] + 0.1 * own[1] + 0.2 * own[3] + 0.3 * own[1])
    # What stands before the third is no question.
    assert parts[3].total == pytest.approx(own[3] + 0.3 * own[1])
    # A memory without a session is one of its own.
    assert parts[4].total == pytest.approx(own[4] + 0.3 * own[4])


def test_notes_of_one_import_do_not_lift_each_other_and_turns_of_one_do() -> None:
    batch: dict[str, Any] = {"session": "import:2024-01-01T00:00:00.000000Z"}
    cosines = {1: 0.8, 2: 0.4}
    weights = replace(BARE, session=0.3)
    for author, best in ((None, 0.3), ("Ana", 0.6)):
        found = ranked("x", [memory(1, author=author, **batch), memory(2, author=author, **batch)], cosines,
                       weights=weights)  # fmt: skip
        assert {hit.record.seq: hit.breakdown.session for hit in found.hits}[2] == pytest.approx(0.3 * best)


def test_a_neighbour_that_is_no_candidate_lifts_nothing() -> None:
    weights = replace(BARE, answer=0.1, following=0.2)
    found = ranked("x", [memory(1)], {1: 0.8}, weights=weights, neighbours={1: (8, 9)})
    assert (found.hits[0].breakdown.answer, found.hits[0].breakdown.following) == (0, 0)


def test_context_counts_for_its_share_of_the_meaning() -> None:
    found = ranked("x", [memory(1), memory(2)], {1: 0.4, 2: 0.5}, weights=replace(BARE, context=0.7), context={1: 0.9})
    parts = {hit.record.seq: hit.breakdown for hit in found.hits}
    best = 0.3 * 0.4 + 0.7 * 0.9
    assert parts[1].semantic == pytest.approx(0.6)
    assert parts[2].semantic == pytest.approx(0.6 * 0.5 / best)
    assert parts[1].cosine == 0.4


# Ties and order


def test_near_ties_go_to_the_newer_memory_and_a_better_match_stays_on_top() -> None:
    old = [memory(n, f"SSH port is 22, note {n}", day=n) for n in range(1, 11)]
    new = memory(11, "SSH port is 49222, note 11", day=30)
    best = memory(12, "SSH port of the server is 22", day=1)
    cosines = {m.seq: 0.8 for m in [*old, new]} | {12: 0.9}
    found = ranked("SSH port", [*old, new, best], cosines, {m.seq: 2.0 for m in [*old, new, best]}, WEIGHTS)
    assert order(found)[0] == 12
    assert 11 in order(found)[:3]


def test_ties_are_broken_by_time_and_then_by_row() -> None:
    memories = [memory(1, day=2), memory(2, day=1), memory(3, day=2)]
    cosines = {m.seq: 0.5 for m in memories}
    for shuffled in (memories, memories[::-1]):
        assert order(ranked("x", shuffled, cosines)) == [3, 1, 2]


def test_equal_texts_collapse_into_the_best_placed_of_them() -> None:
    memories = [memory(1, hash="same"), memory(2), memory(3, hash="same")]
    found = ranked("x", memories, {1: 0.9, 2: 0.8, 3: 0.5})
    assert order(found) == [1, 2]
    assert [hit.score for hit in found.hits] == pytest.approx([0.9, 0.8])


def test_the_nearest_notes_are_among_the_first_ten_whatever_their_words() -> None:
    memories = [memory(n, "the port is closed") for n in range(1, 21)] + [memory(21, "ships can not enter")]
    memories += [memory(22, "nor leave", session="talk")]
    cosines = {21: 0.5, 22: 0.6, **dict.fromkeys(range(1, 21), 0.2)}
    weights = replace(BARE, semantic=0.2, note_semantic=0.2)
    found = ranked("port", memories, cosines, dict.fromkeys(range(1, 21), 3.0), weights)
    # A turn of a talk has its neighbours to speak for it. The note comes as far up as it must, and its score fits.
    assert 21 in order(found)
    assert 22 not in order(found)
    assert [hit.score for hit in found.hits] == sorted((hit.score for hit in found.hits), reverse=True)
    assert found.hits[order(found).index(21)].breakdown.near > 0


def test_notes_and_turns_have_weights_of_their_own() -> None:
    memories = [memory(1, "a note"), memory(2, "a turn", session="talk")]
    weights = replace(BARE, semantic=0.5, note_semantic=0.9)
    parts = {hit.record.seq: hit.breakdown for hit in ranked("x", memories, {1: 0.8, 2: 0.8}, weights=weights).hits}
    assert (parts[1].semantic, parts[2].semantic) == pytest.approx((0.9, 0.5))


# What is no answer


def test_a_distant_memory_without_a_word_of_the_query_is_no_answer() -> None:
    below = COSINE_FLOOR - 0.01
    found = ranked("x", [memory(1), memory(2)], {1: 0.9, 2: below})
    assert (order(found), found.candidates, found.below) == ([1], 2, 1)


def test_a_distant_memory_that_is_near_with_the_turn_before_it_is_an_answer() -> None:
    memories = [memory(1), memory(2, "yes, last week")]
    found = ranked("x", memories, {1: 0.5, 2: 0.0}, weights=replace(BARE, context=0.5), context={2: 0.6})
    assert order(found) == [1, 2]


def test_a_memory_far_behind_the_best_is_no_answer() -> None:
    found = ranked("x", [memory(1), memory(2)], {1: 0.9, 2: 0.9 * RELATIVE_FLOOR * 0.9})
    assert order(found) == [1]


def test_a_keyword_match_is_never_cut_by_a_floor() -> None:
    found = ranked("x", [memory(1), memory(2)], {1: 0.9, 2: -0.5}, {2: 0.01})
    assert order(found) == [1, 2]


def test_nothing_is_an_answer_to_nothing() -> None:
    assert ranked("x", []) == Ranking()
    assert ranked("x", [memory(1)], {1: -0.2}) == Ranking(candidates=1, below=1)


def test_a_threshold_cuts_by_score_and_says_how_many() -> None:
    memories = [memory(n) for n in range(1, 6)]
    found = ranked("x", memories, {n: n / 5 for n in range(1, 6)}, threshold=0.55)
    assert (order(found), found.below) == ([5, 4, 3], 2)


def test_the_limit_cuts_the_list_only() -> None:
    memories = [memory(n) for n in range(1, 6)]
    found = ranked("x", memories, {n: 0.4 + n / 10 for n in range(1, 6)}, limit=2)
    assert (order(found), found.candidates, found.below) == ([5, 4], 5, 0)


# Scores

NUMBERS = st.floats(-1, 1, allow_nan=False)
QUERIES = st.sampled_from(["port", "when was the port", "latest port 5 May"])
CANDIDATES = st.dictionaries(
    st.integers(1, 12),
    st.tuples(NUMBERS | st.none(), st.floats(0.001, 30) | st.none(), st.integers(1, 28)),
    max_size=12,
)


def test_the_parts_of_a_breakdown_add_up_to_the_rank() -> None:
    memories = [
        memory(1, "When is the port open?", session="s", author="Ana", priority="high"),
        memory(2, "Since Monday, on 2024-01-02", session="s", author="Ben"),
        memory(3, "the port of Ghent", day=9, priority="low"),
    ]
    query = parse_query("when did Ana see the port on 2024-01-01", ["Ana"])
    candidates = Candidates(
        {m.seq: m for m in memories}, {1: 0.5, 2: 0.3, 3: 0.4}, {1: 3.0, 3: 2.0}, {2: 0.6},
        {1: (None, 2), 2: (1, None)}, {3: {"Ghent": 0.5}}, {2: 5},
    )  # fmt: skip
    hits = rank(query, candidates, limit=5).hits
    assert len(hits) == 3
    for hit in hits:
        shown = hit.breakdown.shown()
        shown.pop("cosine")
        total, scale = shown.pop("rank"), shown.pop("scale")
        assert sum(shown.values()) == pytest.approx(total, abs=1e-3)
        assert scale * total == pytest.approx(hit.score, abs=1e-3)
        assert hit.score / hits[0].score == pytest.approx(hit.breakdown.total / hits[0].breakdown.total)
    memories = [memory(n, "the port") for n in range(1, 12)]
    weak = replace(BARE, note_semantic=0.2)
    lifted = ranked("port", memories, {11: 0.9}, dict.fromkeys(range(1, 11), 2.0), weak)
    used = {part for hit in (*hits, *lifted.hits) for part in hit.breakdown.shown()}
    assert used == {field.name for field in fields(Breakdown)} - {"own"} | {"rank"}


# The newest of several


PORTS = [memory(n, f"SSH port: {2200 + n}", day=n) for n in range(1, 11)]


@pytest.mark.parametrize(
    ("newest", "cosine", "place"),
    [("SSH port: 49222", 0.69, 1), ("The SSH port is 49222 now", 0.6, 1), ("SSH moved to 49222", 0.4, 1)],
)
def test_the_newest_of_notes_about_one_thing_comes_first(newest: str, cosine: float, place: int) -> None:
    near = {m.seq: 0.7 for m in PORTS} | {11: cosine}
    found = rank(
        parse_query("what is the ssh port"),
        Candidates({m.seq: m for m in [*PORTS, memory(11, newest, day=20)]}, near, dict.fromkeys(near, 2.0)),
        limit=20,
    )
    assert order(found).index(11) + 1 == place


@pytest.mark.parametrize(
    "newest", ["SSH keys moved to the vault of the team", "The web port is 8080", "Ports are nice"]
)
def test_a_newer_note_about_something_else_does_not_pass_a_better_one(newest: str) -> None:
    near = {1: 0.7, 11: 0.4}
    found = rank(
        parse_query("what is the ssh port"),
        Candidates({1: PORTS[0], 11: memory(11, newest, day=20)}, near, dict.fromkeys(near, 2.0)),
        limit=20,
    )
    assert order(found) == [1, 11]
    assert found.hits[0].breakdown.recency < 0.01


def test_what_an_old_note_says_of_a_change_does_not_pass_a_newer_one() -> None:
    memories = [memory(1, "SSH moved to 22", day=1), memory(2, "SSH port: 2200", day=9)]
    found = rank(
        parse_query("what is the ssh port"),
        Candidates({m.seq: m for m in memories}, {1: 0.5, 2: 0.7}, {1: 1.0, 2: 2.0}),
        limit=20,
    )
    assert order(found) == [2, 1]


# What the model knows


def test_meaning_counts_by_as_much_of_a_query_as_the_model_knows() -> None:
    memories = {1: memory(1, "the rocket", hash="other")}
    query = replace(parse_query("rocket 🚀"), known=0.5)
    (hit,) = rank(query, Candidates(memories, {1: 0.9}), limit=5, weights=BARE).hits
    assert hit.breakdown.semantic == pytest.approx(0.3)
    assert hit.score == pytest.approx(0.45)
    assert rank(query, Candidates(memories, {1: 2 * COSINE_FLOOR - 0.01}), limit=5).hits == ()


@settings(max_examples=200)
@given(CANDIDATES, st.floats(0, 1), st.integers(1, 12), QUERIES)
def test_scores_are_between_0_and_1_and_in_order_whatever_the_candidates(
    drawn: dict[int, tuple[float | None, float | None, int]], threshold: float, limit: int, query: str
) -> None:
    memories = [
        memory(seq, day=day, priority=["critical", "high", "medium", "low"][seq % 4], session=[None, "s"][seq % 2],
               hash=f"h{seq % 9}")
        for seq, (_, _, day) in drawn.items()
    ]  # fmt: skip
    cosines = {seq: cosine for seq, (cosine, _, _) in drawn.items() if cosine is not None}
    bm25 = {seq: score for seq, (_, score, _) in drawn.items() if score is not None}
    around = {seq: (seq - 1, seq + 1) for seq in drawn}
    more: dict[str, Any] = {"neighbours": around, "limit": limit, "threshold": threshold}
    found = ranked(query, memories, cosines, bm25, WEIGHTS, **more)
    scores = [hit.score for hit in found.hits]
    assert all(math.isfinite(score) and threshold <= score <= 1 for score in scores)
    assert scores == sorted(scores, reverse=True)
    assert len(scores) <= limit
    assert len({hit.record.hash for hit in found.hits}) == len(found.hits)
    assert found.candidates == len(drawn)
    assert 0 <= found.below <= found.candidates - len(found.hits)
    assert found == ranked(query, memories[::-1], cosines, bm25, WEIGHTS, **more)


def test_a_keyword_match_holds_a_term_at_least() -> None:
    """The index reduces words to stems of its own: a hit scores even where those are not seen as the same here."""
    (hit,) = ranked("generalization", [memory(1, "in general")], bm25={1: 3.0}).hits
    assert hit.score > 0


# The pool


def test_the_pool_is_the_nearest_and_the_nearest_of_each_person_named() -> None:
    nearest = [(1, 0.9), (2, 0.8), (3, 0.7), (4, 0.6), (5, 0.5), (6, 0.4)]
    assert pool(nearest, {"Ana": {3, 4, 5}}, 2) == {1: 0.9, 2: 0.8, 3: 0.7, 4: 0.6}
    assert pool(nearest, {}, 2) == {1: 0.9, 2: 0.8}
    assert pool([], {"Ana": set()}, 2) == {}


# Through the engine


def answer(engine: Engine, query: str) -> dict[str, float]:
    return {hit.record.content: hit.score for hit in engine.search(None, query).ranking.hits}


@pytest.mark.parametrize("intelligence", ["full", "basic"])
def test_the_exact_text_scores_best_and_what_is_unrelated_is_weak(
    make_engine: Callable[..., Engine], intelligence: str
) -> None:
    engine = make_engine(intelligence=intelligence)
    exact, close, other = "the cat sleeps at home", "a kitten sleeps in the flat", "taxes are due in spring"
    for text in (exact, close, other):
        engine.add(None, text, wait=True)
    scores = answer(engine, exact)
    assert scores[exact] == pytest.approx(1, abs=1e-6)
    assert scores[exact] > scores[close] > scores.get(other, 0.0)
    assert scores.get(other, 0.0) < WEAK


def test_two_words_of_a_memory_find_it_and_an_absent_topic_finds_nothing(make_engine: Callable[..., Engine]) -> None:
    engine = make_engine(intelligence="basic")
    for text in ("Proton Mail Bridge needs port 1143", *(f"note {n} about gardening" for n in range(20))):
        engine.add(None, text, wait=True)
    found = answer(engine, "proton bridge")
    assert next(iter(found)) == "Proton Mail Bridge needs port 1143"
    assert found["Proton Mail Bridge needs port 1143"] > WEAK
    assert answer(engine, "submarine periscope") == {}


def test_an_answer_is_never_stale(make_engine: Callable[..., Engine]) -> None:
    """What one process writes is in the next answer of the other, cached or not."""
    first, second = make_engine(), make_engine()
    for n in range(30):
        stored = second.add(None, f"the cat number {n}", wait=True)
        assert f"the cat number {n}" in answer(first, "cat number")
        second.update(None, stored.added.id, content=f"the dog number {n}")
        assert f"the cat number {n}" not in answer(first, "cat number")
        second.delete(None, stored.added.id)
        assert f"the dog number {n}" not in answer(first, "cat number")

"""metadata_filter in SQL against the same filter in plain Python, over real rows."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from r3_lite.clock import to_text
from r3_lite.db import load_migrations
from r3_lite.errors import InvalidParameters
from r3_lite.filters import EVERYTHING, MAX_CHOICES, MAX_CONDITIONS, Clause, compile_filter

RANKS = {"low": 0, "medium": 1, "normal": 1, "high": 2, "critical": 3}


@pytest.fixture(scope="module")
def memories() -> Iterator[apsw.Connection]:
    connection = apsw.Connection(":memory:")
    for migration in load_migrations():
        connection.execute(migration.sql)
    # Its own values of the metadata shall not count.
    insert(connection, "other", '{"a": 1, "b": true, "c": "x", "d": null}', "medium", "2024-05-06T07:08:09.000000Z")
    yield connection
    connection.close()


def passes(
    connection: apsw.Connection,
    metadata_filter: Any,
    metadata: dict[str, Any],
    *,
    priority: str = "medium",
    created_at: str = "2024-05-06T07:08:09.000000Z",
) -> bool:
    """Whether a memory with these columns passes the filter, asked of SQLite."""
    where = compile_filter(metadata_filter)
    connection.execute("DELETE FROM memories WHERE user_id = 'me'")
    text = json.dumps(metadata, ensure_ascii=False, separators=(",", ":"))
    insert(connection, "me", text, priority, created_at)
    found = connection.execute(
        f"SELECT count(*) FROM memories AS m WHERE m.user_id = ?1 AND {where.sql}", ("me", *where.params)
    )
    return bool(found.get)


def insert(connection: apsw.Connection, user_id: str, metadata: str, priority: str, created_at: str) -> None:
    connection.execute(
        """INSERT INTO memories (id, user_id, content, metadata, priority, hash, created_at, updated_at)
           VALUES (?, ?, 'text', ?, ?, '', ?, ?)""",
        (user_id, user_id, metadata, priority, created_at, created_at),
    )


def equal(a: Any, b: Any) -> bool:
    """JSON equality: 1 is 1.0, true is not 1, lists in order, objects in any."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    return (type(a) is type(b) and a == b) or (_number(a) and _number(b) and a == b)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def holds(metadata: dict[str, Any], key: str, operator: str, wanted: Any) -> bool:
    """What a condition means, written down once more in Python."""
    if operator == "$exists":
        return (key in metadata) is wanted
    if operator == "$ne":
        return not holds(metadata, key, "$eq", wanted)
    if operator == "$in":
        return any(holds(metadata, key, "$eq", choice) for choice in wanted)
    if key not in metadata:
        return operator == "$eq" and wanted is None
    value = metadata[key]
    candidates = [value, *value] if isinstance(value, list) else [value]
    if operator == "$eq":
        return any(equal(candidate, wanted) for candidate in candidates)
    return any(_compare(candidate, operator, wanted) for candidate in candidates)


def _compare(value: Any, operator: str, wanted: Any) -> bool:
    if not (isinstance(value, str) and isinstance(wanted, str)) and not (_number(value) and _number(wanted)):
        return False
    order: int = (value > wanted) - (value < wanted)
    return {"$gt": order > 0, "$gte": order >= 0, "$lt": order < 0, "$lte": order <= 0}[operator]


KEYS = st.sampled_from(
    ["a", "b", "", "a.b", 'a"b', "a[0]", "$", "naïve", "東京", "a' OR '1'='1", "%", "\\", "k\0x", "k\0y"]
)
NUMBERS = st.integers(-3, 3) | st.sampled_from([0.5, 1.0, -2.0, 1e300, 2**62, -(2**62), 2**53 + 1])
TEXTS = st.sampled_from(
    ["", "a", "A", "ab", "é", "東京", "😀", "\uffff", "%", '"', "\\u0041", "1", "true", "null", "a\nb", "a\0b", "a\0c"]
)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=5
)
PLAIN = VALUES.filter(lambda value: not (isinstance(value, dict) and any(key.startswith("$") for key in value)))
METADATA = st.dictionaries(KEYS, VALUES, max_size=4)
CONDITIONS = st.one_of(
    st.tuples(st.sampled_from(["$eq", "$ne"]), VALUES),
    st.tuples(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), NUMBERS | TEXTS),
    st.tuples(st.just("$in"), st.lists(VALUES, max_size=3)),
    st.tuples(st.just("$exists"), st.booleans()),
)


@settings(max_examples=400)
@given(METADATA, KEYS, CONDITIONS)
def test_a_condition_selects_what_it_means(
    memories: apsw.Connection, metadata: dict[str, Any], key: str, condition: tuple[str, Any]
) -> None:
    operator, wanted = condition
    assert passes(memories, {key: {operator: wanted}}, metadata) == holds(metadata, key, operator, wanted)


@settings(max_examples=200)
@given(METADATA.filter(bool), st.data())
def test_every_value_equals_itself(memories: apsw.Connection, metadata: dict[str, Any], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(metadata)))
    assert passes(memories, {key: {"$eq": metadata[key]}}, metadata)
    assert not passes(memories, {key: {"$ne": metadata[key]}}, metadata)
    assert passes(memories, {key: {"$in": ["other", metadata[key]]}}, metadata)


@given(METADATA, st.dictionaries(KEYS, PLAIN, max_size=3), KEYS, CONDITIONS)
def test_conditions_are_combined_by_and(
    memories: apsw.Connection, metadata: dict[str, Any], plain: dict[str, Any], key: str, condition: tuple[str, Any]
) -> None:
    combined = {**plain, key: {"$exists": True, condition[0]: condition[1]}}
    expected = all(holds(metadata, k, "$eq", v) for k, v in plain.items() if k != key)
    expected = expected and holds(metadata, key, *condition)
    expected = expected and (condition[0] == "$exists" or key in metadata)
    assert passes(memories, combined, metadata) == expected


def test_no_filter_selects_everything() -> None:
    assert compile_filter(None) == compile_filter({}) == EVERYTHING == Clause("1", [])


def test_objects_are_equal_whatever_the_order_of_their_keys(memories: apsw.Connection) -> None:
    assert passes(memories, {"a": {"x": 1, "y": {"é": [1.0]}}}, {"a": {"y": {"é": [1]}, "x": 1.0}})
    assert not passes(memories, {"a": {"x": 1}}, {"a": {"x": 1, "y": None}})
    assert not passes(memories, {"a": [1, 2]}, {"a": [2, 1]})


def test_a_list_matches_by_its_elements(memories: apsw.Connection) -> None:
    tags = {"tags": ["work", 7, {"n": 1}, None]}
    assert passes(memories, {"tags": "work"}, tags)
    assert passes(memories, {"tags": {"$gt": 6}}, tags)
    assert passes(memories, {"tags": {"n": 1}}, tags)
    assert passes(memories, {"tags": None}, tags)
    assert not passes(memories, {"tags": "wor"}, tags)


DAYS = st.datetimes(datetime(2024, 2, 27), datetime(2024, 3, 2), timezones=st.just(UTC))
OPERATORS = st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"])


@given(DAYS, DAYS, OPERATORS, st.sampled_from(["created_at", "updated_at"]))
def test_times_compare_as_moments(
    memories: apsw.Connection, stored: datetime, wanted: datetime, operator: str, key: str
) -> None:
    asked = wanted.astimezone().isoformat()
    expected = {
        "$eq": stored == wanted, "$ne": stored != wanted, "$gt": stored > wanted,
        "$gte": stored >= wanted, "$lt": stored < wanted, "$lte": stored <= wanted,
    }[operator]  # fmt: skip
    assert passes(memories, {key: {operator: asked}}, {}, created_at=to_text(stored)) == expected


@given(DAYS, DAYS, OPERATORS, st.sampled_from(["%Y-%m-%d", " %Y-%m-%d ", "%Y%m%d"]))
def test_a_date_alone_covers_its_whole_day(
    memories: apsw.Connection, stored: datetime, wanted: datetime, operator: str, form: str
) -> None:
    a, b = stored.date(), wanted.date()
    expected = {"$eq": a == b, "$ne": a != b, "$gt": a > b, "$gte": a >= b, "$lt": a < b, "$lte": a <= b}[operator]
    asked = {"created_at": {operator: wanted.strftime(form)}}
    assert passes(memories, asked, {}, created_at=to_text(stored)) == expected


def test_the_last_day_of_all_is_a_day_like_others(memories: apsw.Connection) -> None:
    last = to_text(datetime(9999, 12, 31, 12))
    assert passes(memories, {"created_at": "9999-12-31"}, {}, created_at=last)
    assert not passes(memories, {"created_at": {"$gt": "9999-12-31"}}, {}, created_at=last)


def test_times_may_be_asked_for_in_seconds_and_in_a_list(memories: apsw.Connection) -> None:
    moment = datetime(2024, 5, 6, tzinfo=UTC)
    created = to_text(moment + timedelta(hours=1))
    assert passes(memories, {"created_at": {"$gt": moment.timestamp()}}, {}, created_at=created)
    assert passes(memories, {"created_at": {"$in": ["2020-01-01", "2024-05-06"]}}, {}, created_at=created)


@pytest.mark.parametrize("stored", ["low", "medium", "high", "critical"])
@pytest.mark.parametrize("asked", ["low", "medium", "normal", "high", "critical", " HIGH "])
def test_priorities_are_ordered(memories: apsw.Connection, stored: str, asked: str) -> None:
    a, b = RANKS[stored], RANKS[asked.strip().lower()]
    expected = {"$eq": a == b, "$ne": a != b, "$gt": a > b, "$gte": a >= b, "$lt": a < b, "$lte": a <= b}
    for operator, result in expected.items():
        assert passes(memories, {"priority": {operator: asked}}, {}, priority=stored) == result


def test_columns_exist_and_metadata_of_their_names_is_not_asked(memories: apsw.Connection) -> None:
    assert passes(memories, {"priority": {"$exists": True}}, {})
    assert not passes(memories, {"created_at": {"$exists": False}}, {})
    assert not passes(memories, {"priority": "low"}, {"priority": "low"}, priority="high")


@pytest.mark.parametrize(
    ("metadata_filter", "reason"),
    [
        ({"a": {"$regex": "x"}}, "knows the operators"),
        ({"a": {"$gt": 1, "plain": 2}}, "knows the operators"),
        ({"a": {"$exists": "yes"}}, "true or false"),
        ({"a": {"$in": "work"}}, "takes a list"),
        ({"a": {"$in": ["x"] * (MAX_CHOICES + 1)}}, "at most 200"),
        ({f"k{n}": 1 for n in range(MAX_CONDITIONS + 1)}, "at most 32"),
        ({"a": {"$gt": None}}, "number or a text"),
        ({"a": {"$lt": True}}, "number or a text"),
        ({"a": {"$gte": [1]}}, "number or a text"),
        ({"created_at": "yesterday"}, "ISO 8601"),
        ({"created_at": {"$gt": None}}, "ISO 8601"),
        ({"updated_at": {"$in": [True]}}, "ISO 8601"),
        ({"priority": "urgent"}, "critical, high, medium, low"),
        ({"priority": {"$gt": 1}}, "critical, high, medium, low"),
        ({"a": 2**63}, "64 bits"),
        ({"a": {"$lt": -(10**400)}}, "64 bits"),
        ({"a": float("nan")}, "JSON cannot express"),
        ({"a": {"$in": [[float("inf")]]}}, "JSON cannot express"),
        ({"\ud800": 1}, "surrogate"),
        ({"a": "\udc00"}, "surrogate"),
        ({"a": "x" * 70_000}, "longer than"),
    ],
)
def test_a_filter_that_means_nothing_is_refused(metadata_filter: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidParameters, match=reason):
        compile_filter(metadata_filter)


def test_a_very_deep_filter_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(InvalidParameters, match="nested deeper"):
        compile_filter(deep)


def test_the_largest_filter_can_be_run(memories: apsw.Connection) -> None:
    largest = {f"k{n}": {"$in": list(range(MAX_CHOICES))} for n in range(MAX_CONDITIONS)}
    assert passes(memories, largest, {f"k{n}": n for n in range(MAX_CONDITIONS)})
    assert not passes(memories, largest, {f"k{n}": n for n in range(MAX_CONDITIONS - 1)})


@pytest.mark.parametrize(
    "text", ["x' OR '1'='1", "'; DROP TABLE memories; --", '$."a"', "%", "a\\", "?1", ":a", "\x01"]
)
def test_text_of_a_filter_is_never_syntax(memories: apsw.Connection, text: str) -> None:
    assert passes(memories, {text: text}, {text: text})
    assert not passes(memories, {text: text}, {text: "other", "other": text})
    assert not passes(memories, {text: {"$eq": text}}, {})


@pytest.mark.parametrize("wanted", [[{"a": 1}], {"a": 1}, 1, None])
def test_an_operator_in_place_of_a_key_is_refused(wanted: Any) -> None:
    with pytest.raises(InvalidParameters, match=r"there is no \$or"):
        compile_filter({"$or": wanted})


def test_a_key_that_looks_like_an_operator_is_reached_with_one(memories: apsw.Connection) -> None:
    assert passes(memories, {"$or": {"$eq": 1}}, {"$or": 1})
    assert not passes(memories, {"$or": {"$eq": 1}}, {"$or": 2})


def test_the_least_64_bit_number_is_a_number_and_one_less_is_refused(memories: apsw.Connection) -> None:
    assert passes(memories, {"a": {"$lte": -(2**63)}}, {"a": -(2**63)})
    for too_large in (-(2**63) - 1, 2**63):
        with pytest.raises(InvalidParameters, match="64 bits"):
            compile_filter({"a": too_large})


@pytest.mark.parametrize("wanted", ["9999-12-31", {"$gte": "9999-12-31"}, {"$lte": "9999-12-31"}])
def test_the_last_day_holds_its_last_microsecond(memories: apsw.Connection, wanted: Any) -> None:
    assert passes(memories, {"created_at": wanted}, {}, created_at="9999-12-31T23:59:59.999999Z")

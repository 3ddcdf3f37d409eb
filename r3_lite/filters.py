"""metadata_filter → SQL: what a filter may say, and the WHERE clause that it becomes. Pure."""

import json
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from r3_lite.clock import parse_time, to_text
from r3_lite.errors import InvalidParameters

OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$exists")
MAX_CONDITIONS = 32
MAX_CHOICES = 200

_COMPARISONS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_PRIORITY_RANKS = {"low": 0, "medium": 1, "normal": 1, "high": 2, "critical": 3}
_PRIORITY_RANK_SQL = "CASE m.priority WHEN 'low' THEN 0 WHEN 'medium' THEN 1 WHEN 'high' THEN 2 ELSE 3 END"
_DATE_ONLY = re.compile(r"\d{4}-\d{2}-\d{2}")

Clause = tuple[str, list[Any]]


def compile_filter(metadata_filter: Mapping[str, Any] | None) -> Clause:
    """Return (SQL, parameters) for a filter over a table named m; ("1", []) when there is nothing to filter.

    {key: value} and {key: {"$eq": value}} mean the same; a list in the metadata matches when one of its elements
    does; text, numbers and booleans never equal each other; {key: null} matches null and absent keys. `created_at`,
    `updated_at` (a date alone covers its whole day, UTC) and `priority` (ordered low to critical) reach the columns.
    Raises InvalidParameters for unknown operators and values that do not fit.
    """
    conditions: list[Clause] = []
    for key, wanted in (metadata_filter or {}).items():
        operations = wanted if _has_operators(wanted) else {"$eq": wanted}
        for operator, value in operations.items():
            if operator not in OPERATORS:
                raise InvalidParameters(f"metadata_filter knows the operators {', '.join(OPERATORS)} only.")
            conditions.append(_condition(key, operator, value))
    if len(conditions) > MAX_CONDITIONS:
        raise InvalidParameters(f"metadata_filter takes at most {MAX_CONDITIONS} conditions.")
    if not conditions:
        return "1", []
    return " AND ".join(sql for sql, _ in conditions), [p for _, params in conditions for p in params]


def _has_operators(value: Any) -> bool:
    return isinstance(value, Mapping) and any(str(key).startswith("$") for key in value)


def _condition(key: str, operator: str, value: Any) -> Clause:
    if isinstance(value, int) and abs(value) >= 2**63:
        raise InvalidParameters("metadata_filter: a number is larger than 64 bits can hold. Use a smaller one.")
    column = {"created_at": _time, "updated_at": _time, "priority": _priority}.get(key)
    if operator == "$exists":
        if not isinstance(value, bool):
            raise InvalidParameters("metadata_filter: $exists takes true or false.")
        if column:
            return ("1" if value else "0"), []
        return _negated(_any_value(key, "1", []), not value)
    if operator == "$ne":
        return _negated(_condition(key, "$eq", value), True)
    if operator == "$in":
        if not isinstance(value, list) or len(value) > MAX_CHOICES:
            raise InvalidParameters(f"metadata_filter: $in takes a list of at most {MAX_CHOICES} values.")
        choices = [_condition(key, "$eq", choice) for choice in value]
        if not choices:
            return "0", []
        return "(" + " OR ".join(sql for sql, _ in choices) + ")", [p for _, params in choices for p in params]
    return (column or _metadata)(key, operator, value)


def _negated(clause: Clause, negate: bool) -> Clause:
    return (f"NOT {clause[0]}" if negate else clause[0]), clause[1]


def _any_value(key: str, test: str, params: list[Any]) -> Clause:
    # json_each takes any key as a plain value: no JSON path is ever built from a caller's text.
    return f"EXISTS (SELECT 1 FROM json_each(m.metadata) AS v WHERE v.key = ? AND {test})", [key, *params]


def _metadata(key: str, operator: str, value: Any) -> Clause:
    if operator in _COMPARISONS:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise InvalidParameters(f"metadata_filter: {operator} takes a number or a text.")
        kinds = "('text')" if isinstance(value, str) else "('integer', 'real')"
        return _each(key, lambda v: f"{v}.type IN {kinds} AND {v}.atom {_COMPARISONS[operator]} ?", [value])
    if value is None:
        null, params = _any_value(key, "v.type = 'null'", [])
        present, present_params = _any_value(key, "1", [])
        return f"({null} OR NOT {present})", [*params, *present_params]
    if isinstance(value, bool):
        return _each(key, lambda v: f"{v}.type = ?", ["true" if value else "false"])
    if isinstance(value, str):
        return _each(key, lambda v: f"{v}.type = 'text' AND {v}.atom = ?", [value])
    if isinstance(value, int | float):
        return _each(key, lambda v: f"{v}.type IN ('integer', 'real') AND {v}.atom = ?", [value])
    return _any_value(key, "v.type IN ('array', 'object') AND v.value = json(?)", [json.dumps(value)])


def _each(key: str, test: Callable[[str], str], params: list[Any]) -> Clause:
    """The value itself passes the test or, where it is a list, one of its elements."""
    element = f"v.type = 'array' AND EXISTS (SELECT 1 FROM json_each(v.value) AS e WHERE {test('e')})"
    return _any_value(key, f"(({test('v')}) OR ({element}))", [*params, *params])


def _time(key: str, operator: str, value: Any) -> Clause:
    moment = parse_time(value)
    if moment is None:
        raise InvalidParameters(f"metadata_filter: {key} compares with an ISO 8601 date or time.")
    start, end = moment, moment
    if isinstance(value, str) and _DATE_ONLY.fullmatch(value.strip()):
        end = moment + timedelta(days=1)
    first, after = to_text(start), to_text(end)
    if start == end:
        return f"m.{key} {_COMPARISONS.get(operator, '=')} ?", [first]
    return {
        "$eq": (f"(m.{key} >= ? AND m.{key} < ?)", [first, after]),
        "$gt": (f"m.{key} >= ?", [after]),
        "$gte": (f"m.{key} >= ?", [first]),
        "$lt": (f"m.{key} < ?", [first]),
        "$lte": (f"m.{key} < ?", [after]),
    }[operator]


def _priority(key: str, operator: str, value: Any) -> Clause:
    rank = _PRIORITY_RANKS.get(value.strip().lower()) if isinstance(value, str) else None
    if rank is None:
        raise InvalidParameters(f"metadata_filter: {key} is one of critical, high, medium, low.")
    return f"{_PRIORITY_RANK_SQL} {_COMPARISONS.get(operator, '=')} ?", [rank]

"""metadata_filter → SQL: what a filter may say, and the WHERE clause that it becomes. Pure."""

import json
import operator as op
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from r3_lite.clock import parse_time, to_text
from r3_lite.errors import InvalidParameters
from r3_lite.limits import check_metadata

OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$exists")
MAX_CONDITIONS = 32
MAX_CHOICES = 200

_COMPARISONS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_LITERALS = {None: "null", True: "true", False: "false"}
_PRIORITY_RANKS = {"low": 0, "medium": 1, "normal": 1, "high": 2, "critical": 3}
_COMPARE = {"$eq": op.eq, "$gt": op.gt, "$gte": op.ge, "$lt": op.lt, "$lte": op.le}
# Characters of the longest text in the index of metadata values (migrations/0003).
_LONGEST_INDEXED = 200
_LIKE_AN_OPERATOR = re.compile(r"\$\w+")
_DATE_ONLY = re.compile(r"\d{4}-\d{2}-\d{2}|\d{8}")


class Clause(NamedTuple):
    """A condition on a memory m: SQL, the values of its "?", and whether the index of metadata values decides it.

    ?1 is the user whose memories are asked for: it must be the first parameter of every statement with a clause.
    """

    sql: str
    params: list[Any]
    indexed: bool = False


EVERYTHING = Clause("1", [])


def compile_filter(metadata_filter: Mapping[str, Any] | None) -> Clause:
    """Return the clause for a filter; EVERYTHING when there is nothing to filter.

    {key: value} and {key: {"$eq": value}} mean the same; a list in the metadata matches when one of its elements
    does; text, numbers and booleans never equal each other; lists and objects equal the same JSON, whatever the
    order of its keys; {key: null} matches null and absent keys. `created_at`, `updated_at` (a date alone covers its
    whole day, UTC) and `priority` (ordered low to critical) reach the columns. Raises InvalidParameters for unknown
    operators, for one in place of a key ("$or"; a key of this form is reached with an operator), and for values that do
    not fit.
    """
    check_metadata(dict(metadata_filter or {}), "metadata_filter")
    conditions: list[Clause] = []
    for key, wanted in (metadata_filter or {}).items():
        if _LIKE_AN_OPERATOR.fullmatch(key) and not _has_operators(wanted):
            raise InvalidParameters(
                "metadata_filter takes keys, and all conditions must hold: there is no $or, $and or $not. For one of "
                'several values use {key: {"$in": [...]}}; for a key that begins with $ {key: {"$eq": value}}.'
            )
        operations = wanted if _has_operators(wanted) else {"$eq": wanted}
        for operator, value in operations.items():
            if operator not in OPERATORS:
                raise InvalidParameters(f"metadata_filter knows the operators {', '.join(OPERATORS)} only.")
            conditions.append(_condition(key, operator, value))
    if len(conditions) > MAX_CONDITIONS:
        raise InvalidParameters(f"metadata_filter takes at most {MAX_CONDITIONS} conditions.")
    if not conditions:
        return EVERYTHING
    return Clause(
        " AND ".join(clause.sql for clause in conditions),
        [param for clause in conditions for param in clause.params],
        any(clause.indexed for clause in conditions),
    )


def _has_operators(value: Any) -> bool:
    return isinstance(value, Mapping) and any(str(key).startswith("$") for key in value)


def _condition(key: str, operator: str, value: Any) -> Clause:
    column = {"created_at": _time, "updated_at": _time, "priority": _priority}.get(key)
    if operator == "$exists":
        if not isinstance(value, bool):
            raise InvalidParameters("metadata_filter: $exists takes true or false.")
        if column:
            return Clause("1" if value else "0", [])
        return _negated(_any_value(key, "1", []), not value)
    if operator == "$ne":
        return _negated(_condition(key, "$eq", value), True)
    choices = value if operator == "$in" else [value]
    if not isinstance(choices, list) or len(choices) > MAX_CHOICES:
        raise InvalidParameters(f"metadata_filter: $in takes a list of at most {MAX_CHOICES} values.")
    if any(isinstance(choice, int) and not -(2**63) <= choice < 2**63 for choice in choices):
        raise InvalidParameters("metadata_filter: a number is larger than 64 bits can hold. Use a smaller one.")
    if operator in _COMPARISONS:
        return (column or _compares)(key, operator, value)
    return _any_of([column(key, "$eq", choice) for choice in choices]) if column else _equals(key, choices)


def _negated(clause: Clause, negate: bool) -> Clause:
    return Clause(f"NOT {clause.sql}", clause.params) if negate else clause


def _any_of(clauses: Sequence[Clause]) -> Clause:
    if len(clauses) == 1:
        return clauses[0]
    return Clause(f"({' OR '.join(c.sql for c in clauses) or '0'})", [p for c in clauses for p in c.params])


def _any_value(key: str, test: str, params: list[Any]) -> Clause:
    # json_each takes any key as a plain value: no JSON path is ever built from a caller's text.
    return Clause(f"EXISTS (SELECT 1 FROM json_each(m.metadata) AS v WHERE v.key = ? AND {test})", [key, *params])


def _compares(key: str, operator: str, value: Any) -> Clause:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidParameters(f"metadata_filter: {operator} takes a number or a text.")
    if isinstance(value, str):
        return _each(key, lambda v: Clause(f"{v}.type = 'text' AND {v}.atom {_COMPARISONS[operator]} ?", [value]))
    # All numbers sort before all texts.
    return _indexed(key, f"value < '' AND value {_COMPARISONS[operator]} ?", [value])


def _indexed(key: str, test: str, params: Sequence[Any]) -> Clause:
    """The index of metadata values, which migrations/0003 fills, knows a value of the key that passes."""
    return Clause(
        f"m.seq IN (SELECT memory FROM attributes WHERE user_id = ?1 AND key = ? AND {test})", [key, *params], True
    )


def _equals(key: str, choices: Sequence[Any]) -> Clause:
    """The value, or an element of it, is one of the choices; each kind of choice is looked up among its own."""
    stored = [_as_stored(choice) for choice in choices]
    if None not in stored:
        return _indexed(key, f"value IN ({_marks(stored)})", stored)
    literals = [_LITERALS[choice] for choice in choices if choice is None or isinstance(choice, bool)]
    texts = [choice for choice in choices if isinstance(choice, str)]
    numbers = [choice for choice in choices if isinstance(choice, int | float) and not isinstance(choice, bool)]
    structures = [json.dumps(choice, ensure_ascii=False) for choice in choices if isinstance(choice, list | dict)]

    def test(v: str) -> Clause:
        alternatives = (
            Clause(f"{v}.type IN ({_marks(literals)})", literals),
            Clause(f"{v}.type = 'text' AND {v}.atom IN ({_marks(texts)})", texts),
            Clause(f"{v}.type IN ('integer', 'real') AND {v}.atom IN ({_marks(numbers)})", numbers),
            Clause(
                f"{v}.type IN ('array', 'object') AND {_leaves(f'{v}.value')} IN ({_marks(structures, _leaves('?'))})",
                structures,
            ),
        )
        return _any_of([alternative for alternative in alternatives if alternative.params])

    equal = _each(key, test)
    return _any_of([equal, _negated(_any_value(key, "1", []), True)]) if None in choices else equal


def _as_stored(choice: Any) -> bytes | str | int | float | None:
    """Return the form of a value in the index of metadata values; None if it is not kept there, or is null."""
    if isinstance(choice, bool):
        return b"\x01" if choice else b"\x00"
    if isinstance(choice, int | float) or (isinstance(choice, str) and len(choice) <= _LONGEST_INDEXED):
        return choice
    return None


def _marks(values: Sequence[Any], mark: str = "?") -> str:
    return ", ".join([mark] * len(values))


def _leaves(json_text: str) -> str:
    """Return SQL for everything in a JSON text in one order: paths, types and values, 1 and 1.0 alike."""
    return (
        "(SELECT json_group_array(json_array(fullkey, iif(type = 'integer', 'real', type),"
        " iif(type IN ('integer', 'real'), atom + 0.0, atom)) ORDER BY fullkey)"
        f" FROM json_tree({json_text}))"
    )


def _each(key: str, test: Callable[[str], Clause]) -> Clause:
    """The value itself passes the test or, where it is a list, one of its elements."""
    itself, element = test("v"), test("e")
    elements = f"v.type = 'array' AND EXISTS (SELECT 1 FROM json_each(v.value) AS e WHERE {element.sql})"
    return _any_value(key, f"(({itself.sql}) OR ({elements}))", [*itself.params, *element.params])


def _time(key: str, operator: str, value: Any) -> Clause:
    moment = parse_time(value)
    if moment is None:
        raise InvalidParameters(f"metadata_filter: {key} compares with an ISO 8601 date or time.")
    first = last = to_text(moment)
    if isinstance(value, str) and _DATE_ONLY.fullmatch(value.strip()):
        last = to_text(moment + timedelta(days=1, microseconds=-1))
    if operator == "$eq":
        return Clause(f"m.{key} BETWEEN ? AND ?", [first, last])
    return Clause(f"m.{key} {_COMPARISONS[operator]} ?", [last if operator in ("$gt", "$lte") else first])


def _priority(key: str, comparison: str, value: Any) -> Clause:
    wanted = _PRIORITY_RANKS.get(value.strip().lower()) if isinstance(value, str) else None
    if wanted is None:
        raise InvalidParameters(f"metadata_filter: {key} is one of critical, high, medium, low.")
    # By name, not by rank: priorities have an index.
    chosen = [name for name, rank in _PRIORITY_RANKS.items() if name != "normal" and _COMPARE[comparison](rank, wanted)]
    return Clause(f"m.{key} IN ({_marks(chosen)})", chosen)

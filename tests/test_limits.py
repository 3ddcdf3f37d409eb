"""How much a caller may send, and what is refused before anything is stored."""

from typing import Any

import pytest

from r3_lite import limits
from r3_lite.errors import InvalidParameters
from r3_lite.limits import check_content, check_metadata, check_user_id


def nested(levels: int) -> dict[str, Any]:
    """An object whose innermost value lies `levels` containers deep."""
    value: Any = "core"
    for level in range(levels - 1):
        value = [value] if level % 2 else {"k": value}
    return {"k": value}


@pytest.mark.parametrize("content", ["a", " a ", "\n\ta\x00b\n", "東京", "🤖", "a" * limits.MAX_CONTENT])
def test_content_within_the_limits_comes_back_unchanged(content: str) -> None:
    assert check_content(content) is content


@pytest.mark.parametrize("content", ["", " ", "\n\t\r", "\u3000\u2003", "a" * (limits.MAX_CONTENT + 1), "x\ud83d"])
def test_blank_too_long_and_broken_content_is_refused(content: str) -> None:
    with pytest.raises(InvalidParameters, match=r"^content "):
        check_content(content)


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"a": None, "b": [1, 2.5, True, "x", {}], "": ""},
        nested(limits.MAX_DEPTH),
        {"n": 10**4000},
        {"t": "x" * 65_000},
    ],
    ids=["empty", "mixed", "deep", "big number", "long"],
)
def test_metadata_within_the_limits_comes_back_unchanged(metadata: dict[str, Any]) -> None:
    assert check_metadata(metadata) is metadata


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        (nested(limits.MAX_DEPTH + 1), "nested deeper"),
        (nested(100_000), "nested deeper"),
        ({"t": "x" * limits.MAX_METADATA}, "longer than"),
        ({"n": float("nan")}, "JSON cannot express"),
        ({"n": [float("-inf")]}, "JSON cannot express"),
        ({"n": 10**5000}, "JSON cannot express"),
        ({"n": {1, 2}}, "JSON cannot express"),
        ({"t": "\ud800"}, "surrogate"),
        ({"\udfff": 1}, "surrogate"),
    ],
    ids=["deep", "very deep", "long", "nan", "infinity", "huge number", "set", "surrogate", "surrogate key"],
)
def test_metadata_outside_the_limits_is_refused(metadata: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidParameters, match=reason):
        check_metadata(metadata)


@pytest.mark.parametrize("user_id", ["a", "Ana Müller", "a%", "x' OR '1'='1", "u" * limits.MAX_USER_ID])
def test_any_other_text_is_a_user_id(user_id: str) -> None:
    assert check_user_id(user_id) is user_id


@pytest.mark.parametrize("user_id", ["", "  ", "u" * (limits.MAX_USER_ID + 1), "\ud83d"])
def test_blank_long_and_broken_user_ids_are_refused(user_id: str) -> None:
    with pytest.raises(InvalidParameters, match=r"^user_id "):
        check_user_id(user_id)


def test_refusals_repeat_nothing_of_what_was_sent() -> None:
    secret = "CANARY"
    refusals = []
    for check, value in [
        (check_content, secret * limits.MAX_CONTENT),
        (check_user_id, secret * limits.MAX_USER_ID),
        (check_metadata, {secret: secret * limits.MAX_METADATA}),
        (check_metadata, {secret: float("nan")}),
    ]:
        with pytest.raises(InvalidParameters) as caught:
            check(value)  # type: ignore[operator]  # each check takes its own value
        refusals.append(caught.value.message + str(caught.value.details))
    assert not [text for text in refusals if secret in text]

"""What language models really send as arguments: nulls, numbers as text, JSON as text. One plain JSON type each.

Some clients refuse a schema with `anyOf` or a list of types, and some send an explicit null for what they leave
out. So an optional argument is published as its one type, and null is taken as "not given".
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import from_json

Priority = Literal["critical", "high", "medium", "low"]


def _absent() -> None:
    """Make the value of an argument that was not given (by a factory: a default would show in the schema)."""


OMITTED = Field(default_factory=_absent)


def published(kind: dict[str, Any] | str, description: str = "") -> WithJsonSchema:
    """Return what clients see of an optional argument: its one type (a name or a whole schema) and description."""
    schema = {"type": kind} if isinstance(kind, str) else kind
    return WithJsonSchema({**schema, "description": description} if description else schema)


def null_means(default: Any) -> BeforeValidator:
    """Return the validator that takes an explicit null as the default."""
    return BeforeValidator(lambda value: default if value is None else value)


def whole_or(default: int) -> BeforeValidator:
    """Return the validator that takes null as the default and refuses true, false and parts of a whole number."""

    def given(value: Any) -> Any:
        if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
            raise ValueError("expected a whole number such as 10")
        return default if value is None else value

    return BeforeValidator(given)


def number_or(default: float) -> BeforeValidator:
    """Return the validator that takes null as the default and refuses true and false."""

    def given(value: Any) -> Any:
        if isinstance(value, bool):
            raise ValueError("expected a number such as 0.5")
        return default if value is None else value

    return BeforeValidator(given)


def whole(least: int, most: int | None = None, description: str | None = None) -> Any:
    """Return the field of a whole number. It is published as "number", as r3 does: 10.0 and "10" are 10 too."""
    return Field(ge=least, le=most, description=description, json_schema_extra={"type": "number"})


def _json_object(value: Any) -> Any:
    parsed = _json_text(value, "{")
    if parsed is not None and not isinstance(parsed, dict):
        raise ValueError('expected an object such as {"topic": "work"}')
    return parsed


def _json_list(value: Any) -> Any:
    parsed = _json_text(value, "[")
    if parsed is not None and not isinstance(parsed, list):
        raise ValueError('expected a list such as [{"role": "user", "content": "I moved to Oslo"}]')
    return parsed


def _json_text(value: Any, opening: str) -> Any:
    """Parse text that looks like the JSON that is wanted; anything else is left for the type to refuse.

    Not by the standard library: it takes half of a surrogate pair, which SQLite then refuses.
    """
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    try:
        return from_json(value, allow_inf_nan=False) if value.lstrip().startswith(opening) else value
    except ValueError:
        return value


def _word(value: Any) -> Any:
    word = value.strip().lower() if isinstance(value, str) else value
    return "medium" if word == "normal" else word


def _joined_blocks(value: Any) -> Any:
    """Return the text of a list of content blocks, the form in which clients hold their messages; null is empty."""
    if value is None:
        return ""
    if isinstance(value, list):
        return "\n".join(str(block.get("text", "")) for block in value if isinstance(block, dict))
    return value


class Message(BaseModel):
    """One turn of a conversation."""

    model_config = ConfigDict(extra="ignore")

    role: Annotated[Literal["user", "assistant", "system"], BeforeValidator(_word)]
    content: Annotated[str, BeforeValidator(_joined_blocks)]


MESSAGES = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "role": {"type": "string", "enum": ["user", "assistant", "system"]},
            "content": {"type": "string"},
        },
        "required": ["role", "content"],
    },
}
PRIORITY = {"type": "string", "enum": ["critical", "high", "medium", "low"]}

Text = Annotated[str, Field(coerce_numbers_to_str=True)]
OptionalText = Annotated[str | None, Field(coerce_numbers_to_str=True)]
OptionalObject = Annotated[dict[str, Any] | None, BeforeValidator(_json_object)]
OptionalMessages = Annotated[list[Message] | None, BeforeValidator(_json_list)]
OptionalPriority = Annotated[Priority | None, BeforeValidator(_word)]
PriorityOr = Annotated[Priority, BeforeValidator(_word)]

UserId = Annotated[OptionalText, OMITTED, published("string", "Whose memories; omit for the configured user.")]
MemoryId = Annotated[Text, Field(description="The full id, as search_memory and get_all_memories show it.")]
Metadata = Annotated[OptionalObject, OMITTED, published("object", "E.g. session_id, author, tags, source.")]
MetadataFilter = Annotated[
    OptionalObject,
    OMITTED,
    published(
        "object",
        '{key: value} or {key: {"$gte": value}}; $eq $ne $gt $gte $lt $lte $in $exists; also created_at, priority.',
    ),
]

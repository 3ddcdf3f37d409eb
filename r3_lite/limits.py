"""How much a caller may send: ceilings on text, metadata and names, and the checks that hold them."""

import json
import unicodedata
from typing import Any

from r3_lite.errors import InvalidParameters

# From the most to the least important.
PRIORITIES = ("critical", "high", "medium", "low")
# Characters of one memory. A text of this size becomes about 6,000 vectors.
MAX_CONTENT = 1_048_576
MAX_METADATA = 65_536
MAX_DEPTH = 20
MAX_USER_ID = 256
MAX_QUERY = 100_000
# White space, control and zero-width characters.
_INVISIBLE = frozenset(["Cc", "Cf", "Zl", "Zp", "Zs"])


def check_content(content: str) -> str:
    """Return a memory's text unchanged. Raises InvalidParameters when it is blank, too long or not Unicode text."""
    if not content.strip():
        raise InvalidParameters("content is empty. Send the text to remember.")
    if len(content) > MAX_CONTENT:
        raise InvalidParameters(f"content is longer than {MAX_CONTENT:,} characters. Store it in parts.")
    return _unicode(content, "content")


def check_query(query: str) -> str:
    """Return a query unchanged. Raises InvalidParameters when nothing in it can be seen, or it is too long."""
    if all(unicodedata.category(character) in _INVISIBLE for character in query):
        raise InvalidParameters("query is empty. Say what to look for.")
    if len(query) > MAX_QUERY:
        raise InvalidParameters(f"query is longer than {MAX_QUERY:,} characters. Ask a shorter question.")
    return query


def check_metadata(metadata: dict[str, Any], name: str = "metadata") -> dict[str, Any]:
    """Return metadata, or another JSON object of that `name`, unchanged.

    Raises InvalidParameters when it is too large, too deep or not JSON.
    """
    if _depth(metadata) > MAX_DEPTH:
        raise InvalidParameters(f"{name} is nested deeper than {MAX_DEPTH} levels. Flatten it.")
    try:
        text = json.dumps(metadata, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        raise InvalidParameters(f"{name} holds a value that JSON cannot express. Send it as text.") from None
    if len(text) > MAX_METADATA:
        raise InvalidParameters(f"{name} is longer than {MAX_METADATA:,} characters as JSON. Shorten it.")
    _unicode(text, name)
    return metadata


def check_user_id(user_id: str) -> str:
    """Return a user id. Raises InvalidParameters when it is blank or too long."""
    if not user_id.strip() or len(user_id) > MAX_USER_ID:
        raise InvalidParameters(f"user_id is a text of 1 to {MAX_USER_ID} characters.")
    return _unicode(user_id, "user_id")


def _unicode(text: str, name: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidParameters(f"{name} holds half a character (a lone surrogate). Send whole Unicode text.") from None
    return text


def _depth(value: Any, so_far: int = 0) -> int:
    if so_far > MAX_DEPTH or not isinstance(value, dict | list):
        return so_far
    children = value.values() if isinstance(value, dict) else value
    return max((_depth(child, so_far + 1) for child in children), default=so_far + 1)

"""Time and ids: ISO 8601 in UTC as the file keeps it, and ids that are unique and sort by creation."""

import re
import secrets
import threading
import time
from datetime import UTC, datetime
from typing import Any

# 2 ** 53 - 1 milliseconds and the years datetime can hold: anything else is not a date.
_MAX_EPOCH_SECONDS = 253_402_300_799

# 11 base-32 digits of microseconds since 1970 (good until the year 3111), then 60 random bits.
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
ID_PATTERN = re.compile(r"mem_[0-9a-hjkmnp-tv-z]{23}")
_lock = threading.Lock()
_last_microsecond = 0


def now_text() -> str:
    """Return the current time as the file keeps it, e.g. "2026-01-31T09:30:00.000000Z"."""
    return to_text(datetime.now(UTC))


def to_text(moment: datetime) -> str:
    """Return a moment as ISO 8601 UTC with microseconds and Z. Naive moments are taken as UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return aware.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def parse_time(value: Any) -> datetime | None:
    """Return the moment that an ISO 8601 text or a Unix time (seconds or milliseconds) names, else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        seconds = value / 1000 if abs(value) > 1e11 else value
        return datetime.fromtimestamp(seconds, UTC) if 0 <= seconds <= _MAX_EPOCH_SECONDS else None
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def new_id(created_at: str | None = None) -> str:
    """Return a new memory id, "mem_" and 23 characters.

    Ids made by one process ascend strictly; those of several processes ascend to the microsecond. With
    `created_at` (as the file keeps it) the id sorts at that moment instead of now.
    """
    global _last_microsecond
    if created_at is not None:
        moment = parse_time(created_at) or datetime.now(UTC)
        microsecond = max(int(moment.timestamp() * 1_000_000), 0)
    else:
        with _lock:
            microsecond = _last_microsecond = max(time.time_ns() // 1000, _last_microsecond + 1)
    return f"mem_{_digits(microsecond, 11)}{_digits(secrets.randbits(60), 12)}"


def _digits(number: int, width: int) -> str:
    return "".join(_ALPHABET[number >> 5 * place & 31] for place in reversed(range(width)))

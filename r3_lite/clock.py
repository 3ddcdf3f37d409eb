"""Time and ids: ISO 8601 in UTC as the file keeps it, and ids that are unique and sort by creation."""

import re
import secrets
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The last second that datetime can hold. From 1e11 on a number is milliseconds (in seconds: the year 5138).
_MAX_EPOCH_SECONDS = 253_402_300_799
_FIRST_MILLISECONDS = 100_000_000_000

# 11 base-32 digits of microseconds since 1970 (good until the year 3111), then 60 random bits.
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_LAST_MICROSECOND = 32**11 - 1
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


def days_ago(days: int) -> str:
    """Return the moment that many days (up to 100 years) before now, as the file keeps it."""
    return to_text(datetime.now(UTC) - timedelta(days=days))


def parse_time(value: Any) -> datetime | None:
    """Return the moment that an ISO 8601 text or a Unix time (seconds or milliseconds) names, else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        # Compared before it is divided: JSON knows integers that no float can hold.
        if not 0 <= value <= _MAX_EPOCH_SECONDS * 1000:
            return None
        return _EPOCH + (timedelta(milliseconds=value) if value > _FIRST_MILLISECONDS else timedelta(seconds=value))
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
        # Whole numbers: a float of seconds is off by a microsecond for later years.
        microsecond = min(max((moment - _EPOCH) // timedelta(microseconds=1), 0), _LAST_MICROSECOND)
    else:
        with _lock:
            microsecond = _last_microsecond = max(time.time_ns() // 1000, _last_microsecond + 1)
    return f"mem_{_digits(microsecond, 11)}{_digits(secrets.randbits(60), 12)}"


def _digits(number: int, width: int) -> str:
    return "".join(_ALPHABET[number >> 5 * place & 31] for place in reversed(range(width)))

"""Mem0's HTTP interface: all that it remembers of one user, page by page. The only call that goes out of the machine.

Four forms are tried in turn until one is there: the platform's third (POST /v3/memories/), second (POST /v2/memories/)
and first (GET /v1/memories/), and that of the server that one runs oneself (GET /memories). Nothing that an answer says
is trusted: addresses in it are never called, redirects never followed, its size, its pages and its time are bounded.
"""

import ipaddress
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from r3_lite.errors import ImportFailed, InvalidParameters, Mem0Failed
from r3_lite.formats import loads

if TYPE_CHECKING:
    import httpx2

PAGE_SIZE = 100
# What a server of one's own gives at most; it has no pages.
OWN_SERVER_LIMIT = 1_000
MAX_PAGE_BYTES = 32 * 1024 * 1024
MAX_BYTES = 256 * 1024 * 1024
MAX_PAGES = 50_000
# Pages one after the other that hold nothing new and still name a next one.
MAX_IDLE_PAGES = 3
# Seconds: to connect, between two pieces of an answer, for a whole answer.
CONNECT_SECONDS, READ_SECONDS, PAGE_SECONDS = 5.0, 30.0, 120.0
ATTEMPTS = 5
# Before the second attempt; doubled before each further one, and then any part of it at random.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
# A longer wait that the server asks for is left to the user.
LONGEST_ASKED_PAUSE = 60.0

_HOST = re.compile(r"[a-z0-9.:-]+")
_ABSENT = {404, 405, 410, 501}
_PASSING = {408, 425, 429}
# The platform leaves out what belongs to a run, an agent or an app as well, unless it is asked for.
_SCOPES = ({"run_id": "*"}, {"agent_id": "*"}, {"app_id": "*"})


@dataclass(frozen=True, slots=True)
class Fetched:
    """Memories as Mem0 gives them, each once, and whether Mem0 is known to have given all."""

    records: list[Any]
    complete: bool


@dataclass(frozen=True, slots=True)
class _Form:
    """One form of the interface. `paged`: it has pages; `filters`: how the user is named in the body, if there."""

    method: Literal["GET", "POST"]
    path: str
    paged: bool = True
    filters: Literal["", "plain", "and"] = ""


_FORMS = (
    _Form("POST", "/v3/memories/", filters="plain"),
    _Form("POST", "/v2/memories/", filters="and"),
    _Form("GET", "/v1/memories/"),
    _Form("GET", "/memories", paged=False),
)


@dataclass(slots=True)
class _Haul:
    """What has come so far."""

    records: list[Any] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    size: int = 0
    complete: bool = True

    def add(self, records: Sequence[Any], listed: set[str]) -> int:
        """Take the records that are new; return how many are not in `listed` yet, which then holds them."""
        before = len(listed)
        for record in records:
            known = isinstance(record, dict) and isinstance(record.get("id"), str)
            key = record["id"] if known else repr(record)
            listed.add(key)
            if key not in self.keys:
                self.keys.add(key)
                self.records.append(record)
        return len(listed) - before


@dataclass(frozen=True, slots=True)
class _Page:
    """One answer: its memories, whether it names a next page (None: it does not say), how many there are in all."""

    records: list[Any]
    more: bool | None
    total: int | None


def fetch(
    base_url: str,
    api_key: str | None,
    user_id: str,
    *,
    stopped: Callable[[], bool] = lambda: False,
    told: Callable[[int], None] = lambda count: None,
) -> Fetched:
    """Return everything that Mem0 at `base_url` remembers of a user; `told` hears after each page how many it is.

    Blocks on the network; `stopped` is asked between pages and while it waits. The key is sent to that host alone.
    Raises InvalidParameters for an address or key that cannot be used, Mem0Failed for all that goes wrong there.
    """
    import httpx2

    base, local = _address(base_url)
    headers = {"User-Agent": "r3-lite", "Accept": "application/json", "Accept-Encoding": "identity"}
    haul = _Haul()
    with httpx2.Client(
        headers=headers,
        follow_redirects=False,
        timeout=httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
        # A proxy of the environment is for the world outside.
        trust_env=not local,
    ) as client:
        if api_key is None and _is_platform(base):
            raise InvalidParameters("There is no key for Mem0. Set MEM0_API_KEY, or give api_key.")
        for form in _FORMS:
            source = _Source(client, base, form, _key_header(form, api_key), user_id)
            if _list(source, haul, stopped, told):
                for scope in _SCOPES if form.filters and _is_platform(base) else ():
                    _list(replace(source, scope=scope), haul, stopped, told)
                return Fetched(haul.records, haul.complete)
    raise Mem0Failed("There is no Mem0 interface at this address. Check MEM0_BASE_URL.")


@dataclass(frozen=True, slots=True)
class _Source:
    """Whom to ask, in which form, for what."""

    client: "httpx2.Client"
    base: str
    form: _Form
    key: dict[str, str]
    user_id: str
    scope: dict[str, str] = field(default_factory=dict)

    @contextmanager
    def answer(self, page: int) -> Iterator["httpx2.Response"]:
        """Send one request and give its answer, of which only the head has been read."""
        query: dict[str, str | int] = {"page": page, "page_size": PAGE_SIZE} if self.form.paged else {}
        body: dict[str, Any] | None = None
        wanted = {"user_id": self.user_id} | self.scope
        if not self.form.filters:
            query |= wanted
        elif self.form.filters == "and" or self.scope:
            body = {"filters": {"AND": [{name: value} for name, value in wanted.items()]}}
        else:
            body = {"filters": wanted}
        if not self.form.paged:
            query |= {"top_k": OWN_SERVER_LIMIT}
        url = self.base + self.form.path
        with self.client.stream(self.form.method, url, params=query, json=body, headers=self.key) as response:
            yield response


def _list(source: _Source, haul: _Haul, stopped: Callable[[], bool], told: Callable[[int], None]) -> bool:
    """Add what a source lists to the haul; tell whether the interface has this form at all."""
    listed: set[str] = set()
    idle = 0
    for number in range(1, MAX_PAGES + 1):
        _check(stopped)
        body = _body(source, number, haul, stopped)
        if body is None:
            # Behind the last page there may be nothing either.
            return number > 1
        page = _page(body)
        fresh = haul.add(page.records, listed)
        told(len(haul.records))
        if not source.form.paged:
            # 100 is what older servers give at most, whatever one asks for.
            haul.complete = len(page.records) not in (100, OWN_SERVER_LIMIT)
            return True
        reached = page.total is not None and page.total <= len(listed)
        if fresh:
            idle = 0
            # Where the total says otherwise, that no page is next is not taken for granted.
            if not page.more and (reached or (page.more is False and page.total is None)):
                return True
        elif not page.more:
            haul.complete &= reached or page.total is None
            return True
        else:
            idle += 1
            if idle >= MAX_IDLE_PAGES:
                break
    raise Mem0Failed("Mem0 names further pages without end. Nothing was imported.")


def _page(body: bytes) -> _Page:
    try:
        document = loads(body)
    except (ValueError, RecursionError):
        raise Mem0Failed("Mem0's answer is not JSON. Check MEM0_BASE_URL; nothing was imported.") from None
    if isinstance(document, list):
        return _Page(document, None, None)
    if isinstance(document, dict):
        found = next((document[key] for key in ("results", "memories") if isinstance(document.get(key), list)), None)
        if found is not None:
            totals = [document[key] for key in ("count", "total") if isinstance(document.get(key), int)]
            more = bool(document["next"]) if "next" in document else None
            return _Page(found, more, totals[0] if totals else None)
    raise Mem0Failed("Mem0's answer holds no list of memories. Check MEM0_BASE_URL; nothing was imported.")


def _body(source: _Source, number: int, haul: _Haul, stopped: Callable[[], bool]) -> bytes | None:
    """Return the body of a page, trying again while that can help, or None where there is none.

    Raises Mem0Failed.
    """
    import httpx2

    reason = ""
    for attempt in range(ATTEMPTS):
        asked: float | None = None
        try:
            with source.answer(number) as response:
                status = response.status_code
                if status == 200:
                    body = _read(response)
                    haul.size += len(body)
                    if haul.size > MAX_BYTES:
                        raise Mem0Failed("Mem0 gives more than 256 MiB. Import an export in parts instead.")
                    return body
                if status in _ABSENT:
                    return None
                if status in (401, 403):
                    raise Mem0Failed("Mem0 refuses the key. Check MEM0_API_KEY, or api_key, and MEM0_BASE_URL.")
                if 300 <= status < 400:
                    raise Mem0Failed(
                        "Mem0 sends to another address, which is not followed. Set MEM0_BASE_URL to the final one."
                    )
                if status not in _PASSING and status < 500:
                    raise Mem0Failed(f"Mem0 refuses the request (HTTP {status}). Nothing was imported.", status=status)
                reason = f"HTTP {status}"
                asked = _asked_pause(response.headers.get("Retry-After"))
        except httpx2.TimeoutException:
            reason = "no answer in time"
        except httpx2.HTTPError as error:
            reason = type(error).__name__
        if asked is not None and asked > LONGEST_ASKED_PAUSE:
            raise Mem0Failed(f"Mem0 asks to wait {asked:,.0f} seconds. Try again then.", retry_after=asked)
        if attempt + 1 < ATTEMPTS:
            backoff = min(FIRST_PAUSE * 2**attempt, LONGEST_PAUSE)
            _wait(asked if asked is not None else random.uniform(backoff / 2, backoff), stopped)
    raise Mem0Failed(f"Mem0 does not answer ({reason}, {ATTEMPTS} attempts). Try again later; nothing was imported.")


def _read(response: "httpx2.Response") -> bytes:
    started, parts, size = time.monotonic(), [], 0
    for part in response.iter_raw():
        parts.append(part)
        size += len(part)
        if size > MAX_PAGE_BYTES:
            raise Mem0Failed("A page of Mem0 is larger than 32 MiB. Nothing was imported.")
        if time.monotonic() - started > PAGE_SECONDS:
            raise Mem0Failed("A page of Mem0 takes too long to come. Try again later; nothing was imported.")
    return b"".join(parts)


def _wait(seconds: float, stopped: Callable[[], bool]) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        _check(stopped)
        time.sleep(min(left, 0.1))


def _check(stopped: Callable[[], bool]) -> None:
    if stopped():
        raise ImportFailed("The import was stopped before all had come from Mem0. Nothing was imported.")


def _asked_pause(header: str | None) -> float | None:
    """Return the seconds that a Retry-After asks to wait, given as a number or as a date; None if it does not."""
    if header is None:
        return None
    try:
        return max(float(header), 0.0) if header.strip().isdecimal() else _seconds_until(header)
    except (ValueError, OverflowError):
        return None


def _seconds_until(date: str) -> float:
    return max(parsedate_to_datetime(date).timestamp() - time.time(), 0.0)


def _address(base_url: str) -> tuple[str, bool]:
    """Return the base without a version at its end, and whether it is on this machine."""
    try:
        parts = urlsplit(base_url.strip())
        host, _port = parts.hostname or "", parts.port
    except ValueError:
        parts, host = urlsplit(""), ""
    local = host == "localhost" or _is_loopback(host)
    whole = (
        _HOST.fullmatch(host)
        and parts.scheme in ("https", "http")
        and not (parts.query or parts.fragment or "@" in parts.netloc)
    )
    if not whole or (parts.scheme == "http" and not local):
        raise InvalidParameters(
            "MEM0_BASE_URL must be an https address without query or password; http is for this machine alone."
        )
    path = parts.path.rstrip("/")
    for version in ("/v1", "/v2", "/v3"):
        path = path.removesuffix(version)
    return f"{parts.scheme}://{parts.netloc}{path}", local


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_platform(base: str) -> bool:
    host = urlsplit(base).hostname or ""
    return host == "mem0.ai" or host.endswith(".mem0.ai")


def _key_header(form: _Form, api_key: str | None) -> dict[str, str]:
    if api_key is None:
        return {}
    key = api_key.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise InvalidParameters("The key for Mem0 is not one. Check MEM0_API_KEY, or api_key.")
    return {"Authorization": f"Token {key}"} if form.paged else {"X-API-Key": key}

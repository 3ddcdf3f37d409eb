"""Mem0's HTTP interface: all that it remembers of one user, page by page. The only call that goes out of the machine.

Four forms are tried in turn until one is there: the platform's third (POST /v3/memories/), second (POST /v2/memories/)
and first (GET /v1/memories/), and that of the server that one runs oneself (GET /memories). Nothing that an answer says
is trusted: addresses in it are never called, redirects never followed, its size, its pages and its time are bounded.
"""

import ipaddress
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from urllib.parse import urlsplit

from r3_lite.errors import InvalidParameters, Mem0Failed
from r3_lite.formats import loads
from r3_lite.mem0_line import Line, open_line

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
# Seconds: to connect, between two pieces of an answer, from the request to the end of its answer, for all together.
CONNECT_SECONDS, READ_SECONDS, PAGE_SECONDS, ALL_SECONDS = 5.0, 30.0, 60.0, 3_600.0
ATTEMPTS = 5
# Before the second attempt; doubled before each further one, and then any part of it at random.
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
# A longer wait that the server asks for is left to the user.
LONGEST_ASKED_PAUSE = 60.0

_HOST = re.compile(r"[a-z0-9.:-]+")
_ABSENT = {404, 405, 410, 501}
_PASSING = {408, 425, 429}
_ENCODINGS = {"", "identity", "gzip", "deflate"}
# The platform leaves out what belongs to a run, an agent or an app as well, unless it is asked for.
_SCOPES = ({"run_id": "*"}, {"agent_id": "*"}, {"app_id": "*"})


@dataclass(frozen=True, slots=True)
class Fetched:
    """Memories as Mem0 gives them, each once, whether Mem0 is known to have given all, and how many it repeated."""

    records: list[Any]
    complete: bool
    repeated: int = 0


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
    repeated: int = 0

    def add(self, page: "_Page", ids: set[str], listed: set[str]) -> int:
        """Take what is new of a page; return how many of its ids are not in `ids`, the ones of its list, yet.

        Of two with one id that say different things both are taken: what is then imported is told, with the reason.
        `listed` are the records of the same list.
        """
        before, repeated = len(ids), 0
        for record in page.records:
            key = same = repr(record)
            if isinstance(record, dict) and isinstance(record.get("id"), str):
                key, same = record["id"], repr((record["id"], record.get("memory")))
            ids.add(key)
            repeated += same in listed
            listed.add(same)
            if same not in self.keys:
                self.keys.add(same)
                self.records.append(record)
        fresh = len(ids) - before
        if fresh or page.more is not None:
            # Else it is the same page again, of a server that knows no pages.
            self.repeated += repeated
        return fresh


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

    Blocks on the network; `stopped` is asked five times a second. The key is sent to that host alone. Not for threads
    on which an event loop runs. Raises InvalidParameters for an address or key that cannot be used, Mem0Failed for all
    that goes wrong there, ImportFailed when it was stopped.
    """
    import httpx2

    base, local = _address(base_url)
    if api_key is None and _is_platform(base):
        raise InvalidParameters("There is no key for Mem0. Set MEM0_API_KEY, or give api_key.")
    haul = _Haul()
    client = httpx2.AsyncClient(
        headers={"User-Agent": "r3-lite", "Accept": "application/json", "Accept-Encoding": "identity"},
        follow_redirects=False,
        timeout=httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
        # A proxy of the environment is for the world outside.
        trust_env=not local,
    )
    with open_line(client, ALL_SECONDS, stopped) as line:
        for form in _FORMS:
            source = _Source(line, base, form, _key_header(form, api_key), user_id)
            if _list(source, haul, told):
                for scope in _SCOPES if form.filters and _is_platform(base) else ():
                    _list(replace(source, scope=scope), haul, told)
                return Fetched(haul.records, haul.complete, haul.repeated)
    raise Mem0Failed("There is no Mem0 interface at this address. Check MEM0_BASE_URL.")


class _Answer(NamedTuple):
    """The answer to one request; of errors only the head was read."""

    status: int
    retry_after: str | None
    body: bytes


@dataclass(frozen=True, slots=True)
class _Source:
    """Whom to ask, in which form, for what."""

    line: Line
    base: str
    form: _Form
    key: dict[str, str]
    user_id: str
    scope: dict[str, str] = field(default_factory=dict)

    async def answer(self, page: int) -> _Answer:
        """Send one request and return its answer. Raises Mem0Failed where it cannot be read, httpx2.HTTPError."""
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
        request = self.line.client.stream(self.form.method, url, params=query, json=body, headers=self.key)
        async with request as response:
            content = await _read(response) if response.status_code == 200 else b""
            return _Answer(response.status_code, response.headers.get("Retry-After"), content)


def _list(source: _Source, haul: _Haul, told: Callable[[int], None]) -> bool:
    """Add what a source lists to the haul; tell whether the interface has this form at all."""
    ids: set[str] = set()
    listed: set[str] = set()
    idle = 0
    # What the pages so far say: that one more is next, and how many memories there are.
    more: bool | None = None
    total: int | None = None
    for number in range(1, MAX_PAGES + 1):
        source.line.check()
        body = _body(source, number, haul)
        if body is None:
            # Behind the last page there may be nothing either.
            haul.complete &= number == 1 or not (more or (total is not None and total > len(ids)))
            return number > 1
        page = _page(body)
        more, total = page.more, page.total if page.total is not None else total
        fresh = haul.add(page, ids, listed)
        told(len(haul.records))
        if not source.form.paged:
            # 100 is what older servers give at most, whatever one asks for.
            haul.complete = len(page.records) not in (100, OWN_SERVER_LIMIT) and (total or 0) <= len(page.records)
            return True
        reached = total is not None and total <= len(ids)
        if fresh:
            idle = 0
            # That no page is next is not taken for granted where the total says otherwise, nor is the total where it
            # may be that of a full page.
            last = reached or total is None if more is False else reached and len(page.records) < PAGE_SIZE
            if last and not more:
                return True
        elif not more:
            haul.complete &= reached or total is None
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


def _body(source: _Source, number: int, haul: _Haul) -> bytes | None:
    """Return the body of a page, trying again while that can help, or None where there is none.

    Raises Mem0Failed.
    """
    import httpx2

    reason = ""
    for attempt in range(ATTEMPTS):
        asked: float | None = None
        try:
            status, retry_after, body = source.line.wait_for(source.answer(number), PAGE_SECONDS)
            if status == 200:
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
            asked = _asked_pause(retry_after)
        except TimeoutError:
            raise Mem0Failed("A page of Mem0 takes too long to come. Try again later; nothing was imported.") from None
        except httpx2.DecodingError:
            raise _unreadable() from None
        except httpx2.TimeoutException:
            reason = "no answer in time"
        except httpx2.HTTPError as error:
            reason = type(error).__name__
        if asked is not None and asked > LONGEST_ASKED_PAUSE:
            raise Mem0Failed(f"Mem0 asks to wait {asked:,.0f} seconds. Try again then.", retry_after=asked)
        if attempt + 1 < ATTEMPTS:
            backoff = min(FIRST_PAUSE * 2**attempt, LONGEST_PAUSE)
            source.line.pause(asked if asked is not None else random.uniform(backoff / 2, backoff))
    raise Mem0Failed(f"Mem0 does not answer ({reason}, {ATTEMPTS} attempts). Try again later; nothing was imported.")


async def _read(response: "httpx2.Response") -> bytes:
    """Return a body, which some servers compress unasked."""
    encodings = response.headers.get("Content-Encoding", "").split(",")
    if not {encoding.strip().lower() for encoding in encodings} <= _ENCODINGS:
        raise _unreadable()
    parts, size = [], 0
    async for part in response.aiter_bytes():
        parts.append(part)
        size += len(part)
        if size > MAX_PAGE_BYTES:
            raise Mem0Failed("A page of Mem0 is larger than 32 MiB. Nothing was imported.")
    return b"".join(parts)


def _unreadable() -> Mem0Failed:
    return Mem0Failed("Mem0's answer is compressed in a way that cannot be read. Nothing was imported.")


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

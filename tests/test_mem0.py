"""Mem0's interface: every page, whatever the server does meanwhile."""

import gzip
import itertools
import json
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from mem0_server import Answer, Mem0, Request, memory, pages

from r3_lite import mem0
from r3_lite.errors import ImportFailed, InvalidParameters, Mem0Failed
from r3_lite.mem0 import Fetched, fetch

KEY = "m0-CANARY"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mem0]:
    monkeypatch.setattr(mem0, "FIRST_PAUSE", 0.001)
    server = Mem0()
    yield server
    server.close()


def get(server: Mem0, user: str = "alex", key: str | None = KEY, **more: Any) -> Fetched:
    return fetch(server.url, key, user, **more)


def failure(server: Mem0, **more: Any) -> str:
    with pytest.raises(Mem0Failed) as caught:
        get(server, **more)
    assert "CANARY" not in caught.value.message
    assert len(caught.value.message) < 250
    return caught.value.message


# Forms of the interface


@pytest.mark.parametrize("count", [0, 1, 100, 101, 250])
def test_every_page_is_fetched(server: Mem0, count: int) -> None:
    server.behave = pages(count)
    assert get(server) == Fetched([memory(n) for n in range(count)], complete=True)
    assert [request.page for request in server.requests] == list(range(1, max((count + 99) // 100, 1) + 1))


@pytest.mark.parametrize("path", ["/v3/memories/", "/v2/memories/", "/v1/memories/"])
def test_older_forms_are_found(server: Mem0, path: str) -> None:
    server.behave = pages(150, path=path)
    assert len(get(server, "a b&c/ü").records) == 150
    last = server.requests[-1]
    assert (last.path, last.user, last.page) == (path, "a b&c/ü", 2)
    assert last.headers["Authorization"] == f"Token {KEY}"
    assert last.method == ("GET" if path == "/v1/memories/" else "POST")


def test_a_server_of_ones_own_is_found(server: Mem0) -> None:
    def behave(request: Request) -> Answer:
        found = request.method == "GET" and request.path == "/memories"
        return Answer({"results": [memory(1)], "relations": []}) if found else Answer(status=405)

    server.behave = behave
    assert get(server) == Fetched([memory(1)], complete=True)
    last = server.requests[-1]
    assert (last.user, last.headers["X-API-Key"], last.query["top_k"]) == ("alex", KEY, "1000")
    assert "Authorization" not in last.headers


@pytest.mark.parametrize(("count", "complete"), [(99, True), (100, False), (101, True), (1000, False)])
def test_a_server_of_ones_own_may_hold_more_than_it_gives(server: Mem0, count: int, complete: bool) -> None:
    found = [memory(n) for n in range(count)]
    server.behave = lambda request: Answer(found) if request.path == "/memories" else Answer(status=404)
    assert get(server) == Fetched(found, complete)


def test_a_server_of_ones_own_may_need_no_key(server: Mem0) -> None:
    server.behave = pages(1)
    assert len(get(server, key=None).records) == 1
    assert "Authorization" not in server.requests[0].headers


def test_a_bare_list_that_ignores_pages_is_taken_once(server: Mem0) -> None:
    server.behave = lambda request: Answer([memory(n) for n in range(130)])
    assert get(server) == Fetched([memory(n) for n in range(130)], complete=True)
    assert len(server.requests) == 2


def test_the_version_at_the_end_of_the_address_is_left_out(server: Mem0) -> None:
    server.behave = pages(1, path="/api/v3/memories/")
    for end in ("/api", "/api/", "/api/v1", "/api/v1/"):
        assert len(fetch(server.url + end, KEY, "alex").records) == 1


def test_nothing_there_is_an_error(server: Mem0) -> None:
    assert "no Mem0 interface" in failure(server)
    assert server.paths() == ["POST /v3/memories/", "POST /v2/memories/", "GET /v1/memories/", "GET /memories"]


def test_the_platform_is_asked_for_what_belongs_to_runs_agents_and_apps_too(
    server: Mem0, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mem0, "_is_platform", lambda base: True)

    def behave(request: Request) -> Answer:
        if "AND" not in request.body["filters"]:
            return pages(2)(request)
        (scope,) = request.body["filters"]["AND"][1]
        results = {"run_id": [memory(1), memory(7)], "agent_id": [], "app_id": [memory(8)]}[scope]
        return Answer({"count": len(results), "next": None, "results": results})

    server.behave = behave
    assert get(server) == Fetched([memory(n) for n in (0, 1, 7, 8)], complete=True)


@pytest.mark.parametrize(
    ("address", "platform"),
    [
        ("https://api.mem0.ai", True),
        ("https://mem0.ai/x", True),
        ("https://mem0.ai.evil.example", False),
        ("https://xmem0.ai", False),
    ],
)
def test_the_platform_is_known_by_its_host(address: str, platform: bool) -> None:
    assert mem0._is_platform(address) == platform


# Answers that lie


def test_addresses_in_an_answer_are_never_called(server: Mem0) -> None:
    server.behave = pages(101)
    assert len(get(server).records) == 101


def test_that_no_page_is_next_is_not_believed_where_the_count_says_otherwise(server: Mem0) -> None:
    server.behave = lambda request: Answer(pages(250)(request).body | {"next": None})
    assert len(get(server).records) == 250


@pytest.mark.parametrize("count", [500, 10**400, -3, "many", True])
def test_a_count_that_is_wrong_loses_nothing(server: Mem0, count: Any) -> None:
    def behave(request: Request) -> Answer:
        answer = pages(150)(request)
        return Answer(answer.body | {"count": count}) if answer.status == 200 else answer

    server.behave = behave
    assert len(get(server).records) == 150


def test_an_empty_page_in_between_is_passed_over(server: Mem0) -> None:
    contents = {1: [memory(1)], 2: [], 3: [memory(3)]}
    server.behave = lambda request: Answer(
        {"next": "x" if request.page < 3 else None, "results": contents[request.page]}
    )
    assert get(server).records == [memory(1), memory(3)]


@pytest.mark.parametrize("results", [[], [memory(1)]])
def test_pages_without_end_that_hold_nothing_new_are_an_error(server: Mem0, results: list[Any]) -> None:
    server.behave = lambda request: Answer({"next": "x", "results": results})
    assert "without end" in failure(server)
    assert len(server.requests) <= 4


def test_new_pages_without_end_are_an_error(server: Mem0, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mem0, "MAX_PAGES", 10)
    server.behave = lambda request: Answer({"next": "x", "results": [memory(request.page)]})
    assert "without end" in failure(server)


@pytest.mark.parametrize("status", [404, 405, 410, 501])
@pytest.mark.parametrize("says", [{"next": "x"}, {"count": 101}, {"count": 101, "next": "x"}])
def test_a_page_that_was_promised_and_is_not_there_is_told(server: Mem0, status: int, says: dict[str, Any]) -> None:
    results = [memory(n) for n in range(100)]
    server.behave = lambda request: Answer({"results": results, **says}) if request.page == 1 else Answer(status=status)
    assert get(server) == Fetched(results, complete=False)


def test_a_last_page_that_falls_short_of_the_count_is_told(server: Mem0) -> None:
    server.behave = lambda request: (
        Answer(pages(150)(request).body | {"count": 151}) if request.page < 3 else Answer([])
    )
    assert get(server) == Fetched([memory(n) for n in range(150)], complete=False)


def test_a_count_that_may_be_that_of_a_full_page_is_not_the_end(server: Mem0) -> None:
    def behave(request: Request) -> Answer:
        found = [memory(n) for n in range(250)][(request.page - 1) * 100 :][:100]
        return Answer({"count": len(found), "results": found})

    server.behave = behave
    assert get(server) == Fetched([memory(n) for n in range(250)], complete=True)


def test_what_mem0_repeats_is_counted(server: Mem0) -> None:
    same = {"memory": "without id"}
    contents = {1: [memory(1), memory(1), same, same], 2: [memory(1), memory(2)]}
    server.behave = lambda request: Answer(
        {"next": "x" if request.page < 2 else None, "results": contents[request.page]}
    )
    assert get(server) == Fetched([memory(1), same, memory(2)], complete=True, repeated=3)


def test_two_texts_with_one_id_are_both_handed_on(server: Mem0) -> None:
    found = [{"id": "a", "memory": "one"}, {"id": "a", "memory": "two"}]
    server.behave = lambda request: Answer({"next": None, "results": found})
    assert get(server) == Fetched(found, complete=True)


def test_an_id_that_comes_twice_counts_once(server: Mem0) -> None:
    contents = {1: [memory(1), memory(2)], 2: [memory(2), memory(3)]}
    server.behave = lambda request: Answer(
        {"next": "x" if request.page < 2 else None, "results": contents[request.page]}
    )
    assert get(server).records == [memory(1), memory(2), memory(3)]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not JSON"),
        (b"<html>CANARY</html>", "not JSON"),
        (b'{"results": [CANARY', "not JSON"),
        (b"\xff\xfe\xfd", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        ({"CANARY": 1}, "no list"),
        ({"results": {"CANARY": 1}}, "no list"),
        ("CANARY", "no list"),
        (7, "no list"),
    ],
)
def test_an_answer_that_is_no_list_of_memories_is_an_error(server: Mem0, body: Any, words: str) -> None:
    server.behave = lambda request: Answer(body)
    assert words in failure(server)
    assert len(server.requests) == 1


def test_memories_of_any_kind_are_handed_on_for_their_own_checks(server: Mem0) -> None:
    odd: list[Any] = [None, 7, "text", [], {"id": 7, "memory": "a"}, {"id": None}]
    server.behave = lambda request: Answer({"results": odd, "next": None})
    assert get(server).records == odd


def test_a_page_that_is_too_large_is_an_error(server: Mem0, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mem0, "MAX_PAGE_BYTES", 10_000)
    server.behave = lambda request: Answer(b"[" + b" " * 20_000 + b"]")
    assert "larger than" in failure(server)


def test_pages_that_are_too_large_together_are_an_error(server: Mem0, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mem0, "MAX_BYTES", 10_000)
    server.behave = pages(1000)
    assert "more than 256 MiB" in failure(server)


def deflated(data: bytes) -> bytes:
    return zlib.compress(data)


@pytest.mark.parametrize(
    ("encoding", "compress"), [("gzip", gzip.compress), ("GZIP", gzip.compress), ("deflate", deflated)]
)
def test_compressed_answers_are_read(server: Mem0, encoding: str, compress: Callable[[bytes], bytes]) -> None:
    body = compress(json.dumps([memory(1)]).encode())
    server.behave = lambda request: Answer(body, headers={"Content-Encoding": encoding})
    assert get(server).records == [memory(1)]
    assert server.requests[0].headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize(("encoding", "body"), [("br", b"CANARY"), ("gzip", b"[]"), ("gzip, x", gzip.compress(b"[]"))])
def test_answers_compressed_otherwise_are_told(server: Mem0, encoding: str, body: bytes) -> None:
    server.behave = lambda request: Answer(body, headers={"Content-Encoding": encoding})
    assert "compressed in a way that cannot be read" in failure(server)
    assert len(server.requests) == 1


def test_an_answer_that_is_too_large_when_unpacked_is_an_error(server: Mem0, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mem0, "MAX_PAGE_BYTES", 10_000)
    server.behave = lambda request: Answer(gzip.compress(b" " * 1_000_000), headers={"Content-Encoding": "gzip"})
    assert "larger than" in failure(server)


# Errors on the way


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 529])
def test_passing_errors_are_tried_again(server: Mem0, status: int) -> None:
    def behave(request: Request) -> Answer:
        return Answer(status=status) if len(server.requests) % 3 else pages(201)(request)

    server.behave = behave
    assert len(get(server).records) == 201
    assert len(server.requests) == 9


def test_errors_that_do_not_pass_end_it(server: Mem0) -> None:
    server.behave = lambda request: Answer(status=503, body={"detail": "CANARY"})
    assert "HTTP 503, 5 attempts" in failure(server)
    assert len(server.requests) == 5


@pytest.mark.parametrize(
    ("status", "words"), [(400, "HTTP 400"), (401, "refuses the key"), (403, "refuses the key"), (422, "HTTP 422")]
)
def test_refusals_are_not_tried_again(server: Mem0, status: int, words: str) -> None:
    server.behave = lambda request: Answer(status=status, body={"detail": "CANARY"})
    assert words in failure(server)
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("target", ["{other}/v3/memories/", "/v3/memories/?page=1"])
def test_redirects_are_never_followed(server: Mem0, status: int, target: str) -> None:
    other = Mem0()
    try:
        server.behave = lambda request: Answer(status=status, headers={"Location": target.format(other=other.url)})
        assert "another address" in failure(server)
        assert other.requests == []
        assert len(server.requests) == 1
    finally:
        other.close()


def test_a_wait_that_is_asked_for_is_kept(server: Mem0) -> None:
    times: list[float] = []

    def behave(request: Request) -> Answer:
        times.append(time.monotonic())
        return Answer(status=429, headers={"Retry-After": "1"}) if len(times) == 1 else pages(1)(request)

    server.behave = behave
    assert len(get(server).records) == 1
    assert times[1] - times[0] >= 1


@pytest.mark.parametrize("asked", ["61", "9" * 400, "Fri, 31 Dec 2999 23:59:59 GMT"])
def test_a_wait_that_is_too_long_is_left_to_the_user(server: Mem0, asked: str) -> None:
    server.behave = lambda request: Answer(status=503, headers={"Retry-After": asked})
    assert "asks to wait" in failure(server)
    assert len(server.requests) == 1


@pytest.mark.parametrize("asked", ["", "soon", "-1", "1e9", "Fri, 31 Foo", "Sat, 01 Jan 2000 00:00:00 GMT"])
def test_a_wait_that_makes_no_sense_is_no_reason_to_fail(server: Mem0, asked: str) -> None:
    def behave(request: Request) -> Answer:
        return Answer(status=503, headers={"Retry-After": asked}) if len(server.requests) == 1 else pages(1)(request)

    server.behave = behave
    assert len(get(server).records) == 1


def test_a_body_that_is_cut_off_is_tried_again(server: Mem0) -> None:
    def behave(request: Request) -> Answer:
        return Answer(b'{"results": [', length=5_000) if len(server.requests) == 1 else pages(1)(request)

    server.behave = behave
    assert len(get(server).records) == 1


def test_bodies_that_are_always_cut_off_are_an_error(server: Mem0) -> None:
    server.behave = lambda request: Answer(b'{"results": [', length=5_000)
    assert "5 attempts" in failure(server)


def test_a_slow_answer_is_tried_again_and_then_an_error(server: Mem0, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mem0, "READ_SECONDS", 0.05)
    server.behave = lambda request: Answer([], pause=0.5)
    assert "no answer in time, 5 attempts" in failure(server)


def dripping(start: bytes, drop: bytes) -> Iterator[bytes]:
    yield start
    for piece in itertools.repeat(drop):
        time.sleep(0.02)
        yield piece


DRIPS = pytest.mark.parametrize(
    ("start", "drop"),
    [
        (b"HTTP/1.1 200 OK\r\nX: ", b"a"),
        (b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b" "),
    ],
    ids=["head", "preliminary answers", "body"],
)


@DRIPS
def test_an_answer_that_drips_is_an_error(
    server: Mem0, monkeypatch: pytest.MonkeyPatch, start: bytes, drop: bytes
) -> None:
    monkeypatch.setattr(mem0, "PAGE_SECONDS", 0.3)
    server.behave = lambda request: Answer(pieces=dripping(start, drop))
    assert "too long to come" in failure(server)
    assert len(server.requests) == 1


@DRIPS
def test_it_can_be_stopped_while_an_answer_drips(server: Mem0, start: bytes, drop: bytes) -> None:
    server.behave = lambda request: Answer(pieces=dripping(start, drop))
    with pytest.raises(ImportFailed, match="was stopped"):
        get(server, stopped=lambda: len(server.requests) > 0)


def test_pages_that_all_together_take_too_long_are_an_error(server: Mem0, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mem0, "ALL_SECONDS", 0.3)
    server.behave = lambda request: Answer({"next": "x", "results": [memory(request.page)]})
    assert "longer than an hour" in failure(server)


def test_nobody_there_is_an_error(server: Mem0) -> None:
    url = server.url
    server.close()
    with pytest.raises(Mem0Failed, match=r"does not answer \(ConnectError, 5 attempts"):
        fetch(url, KEY, "alex")


# Addresses and keys


@pytest.mark.parametrize(
    "address",
    [
        "http://api.mem0.ai", "http://10.0.0.7:8000", "http://localhost.example", "ftp://localhost", "file:///etc/passwd",
        "api.mem0.ai", "", "https://", "https://name:CANARY@api.mem0.ai", "https://api.mem0.ai?x=1",
        "https://api.mem0.ai#x", "https://api.mem0.ai:port", "https://[::1", "https://a b", "https://exämple.org", "http://127.0.0.1.example",
    ],
)  # fmt: skip
def test_only_https_or_this_machine_is_spoken_to(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("it was called"))
    with pytest.raises(InvalidParameters, match="MEM0_BASE_URL must be an https address") as caught:
        fetch(address, KEY, "alex")
    assert "CANARY" not in caught.value.message


@pytest.mark.parametrize("key", ["", " ", "a b", "CANARY\nX-Evil: 1", "ключ", "a\x00b"])
def test_what_can_be_no_key_is_refused_unsent(server: Mem0, key: str) -> None:
    with pytest.raises(InvalidParameters, match="is not one") as caught:
        get(server, key=key)
    assert "CANARY" not in caught.value.message
    assert server.requests == []


def test_the_platform_needs_a_key() -> None:
    with pytest.raises(InvalidParameters, match="Set MEM0_API_KEY"):
        fetch("https://api.mem0.ai", None, "alex")


def test_a_proxy_of_the_environment_never_sees_calls_to_this_machine(
    server: Mem0, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    server.behave = pages(1)
    assert len(get(server).records) == 1


# While it runs


def test_it_is_told_how_much_has_come(server: Mem0) -> None:
    told: list[int] = []
    server.behave = pages(250)
    get(server, told=told.append)
    assert told == [100, 200, 250]


def test_it_can_be_stopped_between_pages_and_while_it_waits(server: Mem0, monkeypatch: pytest.MonkeyPatch) -> None:
    server.behave = pages(1000)
    with pytest.raises(ImportFailed, match="was stopped"):
        get(server, stopped=lambda: len(server.requests) >= 3)
    assert len(server.requests) == 3
    monkeypatch.setattr(mem0, "FIRST_PAUSE", 1000.0)
    server.behave = lambda request: Answer(status=503)
    with pytest.raises(ImportFailed, match="was stopped"):
        get(server, stopped=lambda: len(server.requests) >= 4)
    assert len(server.requests) == 4

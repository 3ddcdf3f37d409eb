"""A server on this machine that speaks Mem0's interface, and can be slow, broken, and lie."""

import json
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any

    @property
    def page(self) -> int:
        return int(self.query.get("page", "1"))

    @property
    def user(self) -> str | None:
        filters = (self.body or {}).get("filters", {})
        return self.query.get("user_id") or filters.get("user_id") or filters["AND"][0]["user_id"]


@dataclass
class Answer:
    """What the server sends: JSON, or bytes as they are; `length` lies about how many they are.

    `pieces` are sent one after the other instead of all that, head and body.
    """

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    length: int | None = None
    pause: float = 0.0
    pieces: Iterable[bytes] | None = None


Behaviour = Callable[[Request], Answer]


class Mem0:
    """A server whose answers a test decides. Knows who asked for what."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.behave: Behaviour = lambda request: Answer(status=404)
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                parts = urlsplit(self.path)
                sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                query = {name: values[0] for name, values in parse_qs(parts.query).items()}
                body = json.loads(sent) if sent else None
                request = Request(self.command, parts.path, query, dict(self.headers.items()), body)
                outer.requests.append(request)
                answer = outer.behave(request)
                if answer.pieces is not None:
                    self.close_connection = True
                    for piece in answer.pieces:
                        self.wfile.write(piece)
                    return
                data = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
                time.sleep(answer.pause)
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data) if answer.length is None else answer.length))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = answer

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                """Say nothing: clients hang up on answers that they will not have."""

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def paths(self) -> list[str]:
        return [f"{request.method} {request.path}" for request in self.requests]


def memory(number: int) -> dict[str, Any]:
    return {"id": f"id-{number}", "memory": f"fact {number}", "metadata": None}


def pages(count: int, *, path: str = "/v3/memories/", size: int = 100, **more: Any) -> Behaviour:
    """Serve so many memories in pages, as the platform does: behind the last one there is nothing."""

    def behave(request: Request) -> Answer:
        start = (request.page - 1) * size
        if request.path != path or (start >= count and request.page > 1):
            return Answer(status=404, body={"detail": "Invalid page."})
        following = f"https://elsewhere.example/?page={request.page + 1}" if start + size < count else None
        results = [memory(n) for n in range(start, min(start + size, count))]
        return Answer({"count": count, "next": following, "previous": None, "results": results, **more})

    return behave

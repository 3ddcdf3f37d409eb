"""What all tests share: real SQLite files, and an embedding model whose vectors can be computed by hand."""

import contextlib
import ctypes
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import hypothesis
import numpy as np
import pytest
from numpy.typing import NDArray

from r3_lite.db import Database
from r3_lite.embed import Encoder
from r3_lite.embed_models import ModelInfo
from r3_lite.engine import Engine
from r3_lite.settings import Settings

hypothesis.settings.register_profile(
    "r3",
    deadline=None,
    derandomize=True,
    max_examples=100,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture, hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("r3")

# One axis for each meaning; the last one for whatever the tiny model does not know.
MEANINGS = (
    ("cat", "kitten", "feline"),
    ("dog", "puppy", "hound"),
    ("car", "automobile", "vehicle"),
    ("tea", "brew"),
    ("job", "employer", "work"),
    ("house", "home", "flat"),
    ("port", "socket"),
)
DIMENSION = len(MEANINGS) + 1
AXES = {word: axis for axis, meaning in enumerate(MEANINGS) for word in meaning}


def tiny_vector(text: str) -> NDArray[np.float32]:
    """Return how often each meaning occurs, as a unit vector: "cat dog" is (1, 1, 0, …) / √2."""
    counts = np.zeros(DIMENSION, np.float32)
    for word in re.findall(r"\w+", text.casefold()):
        if word in AXES:
            counts[AXES[word]] += 1
    if not counts.any():
        counts[-1] = 1
    return counts / np.float32(np.linalg.norm(counts))


class TinyModel:
    """A model of eight dimensions with one window a paragraph. Notes what it embeds; fails where it is told to."""

    def __init__(self, name: str = "tiny", fingerprint: str = "tiny-1") -> None:
        self.info = ModelInfo(name, DIMENSION, fingerprint)
        self.queries: list[str] = []
        self.texts: list[str] = []
        self.fails: Callable[[str], bool] = lambda text: False

    def embed_query(self, text: str) -> NDArray[np.float32]:
        self.queries.append(text)
        return tiny_vector(text)

    def embed_text(self, text: str) -> NDArray[np.float32]:
        self.texts.append(text)
        if self.fails(text):
            raise ValueError("the tiny model was told to fail")
        return np.stack([tiny_vector(part) for part in text.split("\n\n")])


@contextlib.contextmanager
def without_root_powers() -> Iterator[None]:
    """Let file permissions count for this thread, even where the tests run as root (on Linux)."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this thread
    powers = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, powers) == 0
    effective = powers[0]
    powers[0] = effective & ~0b1110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER
    assert libc.capset(header, powers) == 0
    try:
        yield
    finally:
        powers[0] = effective
        assert libc.capset(header, powers) == 0


def plans(connection: apsw.Connection, call: Callable[[], object]) -> list[tuple[str, str]]:
    """The query plan of every statement that a call runs, triggers' own statements aside."""
    statements: list[tuple[str, Any]] = []

    def note(cursor: apsw.Cursor, sql: str, bindings: Any) -> bool:
        statements.append((sql, bindings))
        return True

    connection.exec_trace = note
    try:
        call()
    finally:
        connection.exec_trace = None
    return [
        (sql, str(row[3]))
        for sql, bindings in statements
        for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", bindings)
    ]


def eventually(condition: Callable[[], object]) -> None:
    """Wait until something that happens on another thread has happened; fail when it never does."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.01)


def on_file_system(monkeypatch: pytest.MonkeyPatch, kind: str, mount: Path) -> None:
    """Pretend that a folder is where a file system of this kind is mounted."""
    partitions = [SimpleNamespace(mountpoint="/", fstype="ext4"), SimpleNamespace(mountpoint=str(mount), fstype=kind)]
    monkeypatch.setattr("psutil.disk_partitions", lambda **_: partitions)


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"INTELLIGENCE_MODE", "DEMO_MODE", "QUIET_MODE", "DEBUG"}
    for name in [n for n in os.environ if n.startswith(("R3_", "MEM0_")) or n in names]:
        monkeypatch.delenv(name)


@pytest.fixture
def db_path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "memories.db"


@pytest.fixture
def database(db_path: Path) -> Iterator[Database]:
    """A new file. Durability against power loss is tested elsewhere and costs a tenth of a second a test."""
    database = Database(db_path, synchronous="normal")
    yield database
    database.close()


@pytest.fixture
def tiny_model(monkeypatch: pytest.MonkeyPatch) -> TinyModel:
    """The model that every encoder loads under the name "tiny" in this test."""
    model = TinyModel()
    monkeypatch.setattr("r3_lite.embed.open_model", lambda name, cache_dir: model)
    return model


@pytest.fixture
def encoder(tiny_model: TinyModel, tmp_path: Path) -> Encoder:
    """An encoder with the tiny model, ready."""
    encoder = Encoder("tiny", cache_dir=tmp_path / "models")
    encoder.load()
    return encoder


@pytest.fixture
def make_engine(db_path: Path, tmp_path: Path, tiny_model: TinyModel) -> Iterator[Callable[..., Engine]]:
    """Open engines on the test's file with the tiny model ready; overrides are fields of Settings."""
    engines: list[Engine] = []

    def make(**overrides: Any) -> Engine:
        defaults = {
            "db_path": db_path,
            "synchronous": "normal",
            "embedding_model": "tiny",
            "model_cache": tmp_path / "models",
            "import_roots": (tmp_path,),
        }
        engine = Engine(Settings(**{**defaults, **overrides}))
        if engine.encoder.state != "off":
            engine.encoder.load()
        engines.append(engine)
        return engine

    yield make
    for engine in engines:
        engine.close()


@pytest.fixture
def engine(make_engine: Callable[..., Engine]) -> Engine:
    return make_engine()

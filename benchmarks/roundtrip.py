"""Does a store come back from its own export as it was?

Method: a store of varied memories (many scripts, emoji, control characters, very long texts, nested metadata, every
priority, purposeful copies, sessions, imported dates, changed, deleted and restored ones, purged histories) is exported
as JSON and JSON Lines; each is imported into an empty store and exported from there. The two files have to be the same
to the byte, and the rows of memories and histories the same but for their numbers in the file.

Bars: no byte and no row differs.

    python -m benchmarks.roundtrip [--memories 5000] [--seed 0] [--json FILE]
"""

import argparse
import random
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from benchmarks.bars import Bar, at_most, print_bars, write_json
from benchmarks.notes import notes
from r3_lite import history, store
from r3_lite.engine import Engine
from r3_lite.export import export
from r3_lite.settings import Settings
from r3_lite.store import NewMemory

USER = "ada"
_PRIORITIES = ("critical", "high", "medium", "low")
_PHRASES = (
    "Der Schlüssel liegt unter der Fußmatte – „wie immer“",
    "鍵は玄関マットの下にあります",
    "钥匙在门垫下面，别忘了。",
    "열쇠는 현관 매트 아래에 있습니다",
    "Ключ лежит под ковриком у двери",
    "المفتاح تحت ممسحة الأرجل",
    "המפתח מתחת לשטיח",
    "चाबी पायदान के नीचे है",
    "กุญแจอยู่ใต้พรมเช็ดเท้า",
    "Το κλειδί είναι κάτω από το χαλάκι",
    "👩‍👩‍👧‍👦 🏳️‍🌈 🇦🇹 e\u0301 \u202eright to left\u202c \ufeffmark",
    "NUL \0, bell \a, escape \x1b[31m, tabs\t\tand\r\nlines\u2028separated\u2029, \x7f\x85\x9b",
    '{"looks": "like JSON"} \\ "quotes" \\u0041 </script> ',
    "  =SUM(A1)  ```fence``` # heading \n\n",
)


def _metadata(rng: random.Random) -> dict[str, Any]:
    choices: list[dict[str, Any]] = [
        {},
        {"session_id": f"session {rng.randrange(9)}", "author": rng.choice(_PHRASES)},
        {"é": {"nested": [1, 1.0, -0.0, 1e300, 2**70, True, None, "", [], {}, {"deep": [[[]]]}]}},
        {rng.choice(_PHRASES): rng.choice(_PHRASES), "created_at": "1970", "history": [], "copy": 3, "deleted": True},
        {"long": "x" * rng.randrange(20_000)},
    ]
    return rng.choice(choices)


def fill(engine: Engine, count: int, seed: int) -> None:
    """Store so many memories and change, delete, restore and purge some of them. No model is needed."""
    rng = random.Random(seed)
    texts = notes(count, seed)
    ids: list[str] = []
    for start in range(0, count, 500):
        with engine.database.write() as connection:
            for text in texts[start : start + 500]:
                content = f"{rng.choice(_PHRASES)} {text}" if rng.random() < 0.7 else text
                if rng.random() < 0.004:
                    content *= rng.randrange(1000)
                new = NewMemory(
                    USER,
                    content or text,
                    _metadata(rng),
                    rng.choice(_PRIORITIES),
                    id=rng.choice([None, None, f"other.program:{len(ids)}"]),
                    created_at=rng.choice(
                        [None, f"19{rng.randrange(10, 99)}-01-01T00:00:00.{rng.randrange(10**6):06d}Z"]
                    ),
                    batch=rng.choice([None, f"import:{start}"]),
                )
                ids.append(store.insert(connection, new, check_duplicates=False).id)
                if rng.random() < 0.05:
                    ids.append(store.insert(connection, NewMemory(USER, new.content), check_duplicates=False).id)
    for memory_id in rng.sample(ids, count // 5):
        engine.update(USER, memory_id, content=rng.choice(texts), metadata={"changed": rng.random()})
    deleted = rng.sample(ids, count // 8)
    for memory_id in deleted:
        engine.delete(USER, memory_id)
    for memory_id in deleted[::5]:
        engine.restore(USER, memory_id, version=1, as_copy=True)
    with engine.database.write() as connection:
        for memory_id in rng.sample(ids, count // 50):
            if history.owner(connection, memory_id):
                history.purge(connection, USER, memory_id=memory_id)


def rows(engine: Engine) -> list[list[Any]]:
    """Return what the file holds of memories, in the order of storing, and of histories."""
    with engine.database.read() as connection:
        columns = "id, user_id, content, metadata, priority, hash, copy, created_at, updated_at, batch, session, spaced"
        return [
            connection.execute(f"SELECT {columns} FROM memories ORDER BY seq").fetchall(),
            connection.execute("SELECT * FROM history ORDER BY memory_id, version").fetchall(),
        ]


def there_and_back(folder: Path, engine: Engine, form: Literal["json", "jsonl"]) -> dict[str, Any]:
    """Export, import into an empty store, export; return what differs and how long each took."""
    first, second = folder / f"first.{form}", folder / f"second.{form}"
    started = time.perf_counter()
    write(engine, form, first)
    exported = time.perf_counter()
    other = open_engine(folder / f"{form}.db", folder)
    tally = other.import_file(USER, str(first))
    imported = time.perf_counter()
    write(other, form, second)
    differing = sum(a != b for a, b in zip(first.read_bytes(), second.read_bytes(), strict=False))
    differing += abs(first.stat().st_size - second.stat().st_size)
    ours, theirs = rows(engine), rows(other)
    other.close()
    return {
        "differing_bytes": differing,
        "differing_rows": sum(
            a != b for one, two in zip(ours, theirs, strict=True) for a, b in zip(one, two, strict=False)
        )
        + sum(abs(len(one) - len(two)) for one, two in zip(ours, theirs, strict=True)),
        "not_imported": tally.total - tally.imported,
        "bytes": first.stat().st_size,
        "memories": len(ours[0]),
        "versions": len(ours[1]),
        "export_seconds": exported - started,
        "import_seconds": imported - exported,
    }


def write(engine: Engine, form: Literal["json", "jsonl"], file: Path) -> None:
    """Write an export to a file."""
    with file.open("w", encoding="utf-8", newline="") as opened:
        opened.writelines(export(engine.database, form, USER))


def open_engine(path: Path, folder: Path) -> Engine:
    """Return an engine on a file, without a model, that may import from the folder."""
    return Engine(Settings(db_path=path, intelligence="basic", synchronous="normal", import_roots=(folder,)))


def measure(count: int, seed: int) -> dict[str, Any]:
    """Fill a store and take it there and back in both formats; return the figures of each."""
    with TemporaryDirectory() as name:
        folder = Path(name).resolve()
        engine = open_engine(folder / "memories.db", folder)
        fill(engine, count, seed)
        figures = {form: there_and_back(folder, engine, form) for form in ("json", "jsonl")}
        engine.close()
        return figures


def bars(figures: dict[str, Any]) -> list[Bar]:
    """Return the bars of this benchmark."""
    found: list[Bar] = []
    for form, f in figures.items():
        note = f"{f['memories']:,} memories, {f['versions']:,} versions, {f['bytes'] / 1e6:.0f} MB"
        found.append(
            at_most(f"bytes that differ after export, import, export ({form})", f["differing_bytes"], 0, note=note)
        )
        found.append(at_most(f"rows that differ ({form})", f["differing_rows"] + f["not_imported"], 0))
    return found


def main() -> None:
    """Read the command line, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=5000, help="how many are stored at first (default: 5000)")
    parser.add_argument("--seed", type=int, default=0, help="of what they are (default: 0)")
    parser.add_argument("--json", type=Path, help="file for the figures")
    arguments = parser.parse_args()
    figures = measure(arguments.memories, arguments.seed)
    print(figures)
    print_bars(bars(figures))
    write_json(arguments.json, bars(figures), figures)


if __name__ == "__main__":
    main()

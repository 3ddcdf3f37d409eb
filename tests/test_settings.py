"""What a user can set, from which variables, and what happens without a home folder."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from r3_lite import settings
from r3_lite.errors import InvalidParameters
from r3_lite.settings import HOME, load_settings


def test_the_database_lies_in_the_users_data_folder_whatever_the_working_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = load_settings()
    monkeypatch.chdir(tmp_path)
    assert load_settings() == before
    assert before.db_path == settings.DATA_DIRECTORY / "memories.db"
    assert before.db_path.is_absolute()


def test_no_env_file_of_the_working_directory_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("R3_USER_ID=somebody\n")
    monkeypatch.chdir(tmp_path)
    assert load_settings().user_id == "default"


@pytest.mark.parametrize(
    ("variable", "text", "field", "value"),
    [
        ("R3_DB_PATH", "/data/m.db", "db_path", Path("/data/m.db")),
        ("R3_DB_PATH", "notes/m.db", "db_path", HOME / "notes/m.db"),
        ("R3_DB_PATH", "~/m.db", "db_path", Path("~/m.db").expanduser()),
        ("R3_USER_ID", "ana", "user_id", "ana"),
        ("MEM0_USER_ID", "ana", "user_id", "ana"),
        ("R3_USER_ID", "", "user_id", "default"),
        ("R3_EMBEDDING_MODEL", "some/model", "embedding_model", "some/model"),
        ("R3_THREADS", "2", "threads", 2),
        ("R3_INTELLIGENCE", " BASIC ", "intelligence", "basic"),
        ("INTELLIGENCE_MODE", "basic", "intelligence", "basic"),
        ("INTELLIGENCE_MODE", "enhanced", "intelligence", "full"),
        ("R3_SYNCHRONOUS", "NORMAL", "synchronous", "normal"),
        ("R3_JOURNAL_MODE", "Delete", "journal_mode", "delete"),
        ("R3_BUSY_TIMEOUT", "0", "busy_timeout", 0.0),
        ("R3_CACHE_MAX_SIZE", "0", "cache_max_size", 0),
        ("MEM0_BASE_URL", "http://localhost:8000", "mem0_base_url", "http://localhost:8000"),
        ("R3_DEMO", "true", "demo", True),
        ("DEMO_MODE", "1", "demo", True),
        ("R3_DEBUG", "0", "debug", False),
        ("DEBUG", "app:*", "debug", True),
        ("DEBUG", "off", "debug", False),
        ("QUIET_MODE", "false", "quiet", False),
    ],
)
def test_a_variable_sets_its_field(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str, field: str, value: Any
) -> None:
    monkeypatch.setenv(variable, text)
    assert getattr(load_settings(), field) == value


def test_r3_lites_own_variable_wins_over_r3s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEM0_USER_ID", "old")
    monkeypatch.setenv("R3_USER_ID", "new")
    assert load_settings().user_id == "new"


def test_an_override_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("R3_USER_ID", "environment")
    assert load_settings(user_id="given", db_path=tmp_path / "x.db").user_id == "given"


def test_import_roots_are_a_list_of_paths(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("R3_IMPORT_ROOTS", f"{tmp_path / 'link'}{os.pathsep}exports{os.pathsep}")
    assert load_settings().import_roots == ((tmp_path / "real").resolve(), (HOME / "exports").resolve())


def test_imports_come_from_home_and_the_temporary_folder_unless_set() -> None:
    assert load_settings().import_roots == (HOME.resolve(), Path(tempfile.gettempdir()).resolve())


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("R3_THREADS", "CANARY"),
        ("R3_THREADS", "0"),
        ("R3_BUSY_TIMEOUT", "-1"),
        ("R3_JOURNAL_MODE", "CANARY"),
        ("R3_SYNCHRONOUS", "off"),
        ("R3_CACHE_MAX_SIZE", "CANARY"),
        ("R3_DB_PATH", "~CANARY-nobody/x.db"),
        ("R3_IMPORT_ROOTS", "~CANARY-nobody/x"),
        ("R3_USER_ID", " "),
        ("R3_DEMO", "CANARY"),
        ("DEMO_MODE", "flase"),
        ("R3_USER_ID", "CANARY" * 50),
    ],
)
def test_an_unusable_value_is_refused_by_the_name_of_its_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str
) -> None:
    monkeypatch.setenv(variable, text)
    with pytest.raises(InvalidParameters) as caught:
        load_settings()
    assert variable in caught.value.message
    assert "CANARY" not in caught.value.message


def test_import_roots_that_lead_in_a_circle_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    monkeypatch.setenv("R3_IMPORT_ROOTS", str(tmp_path / "a" / "x"))
    with pytest.raises(InvalidParameters, match="R3_IMPORT_ROOTS"):
        load_settings()


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        load_settings().user_id = "other"


def read_without_home(prelude: str = "") -> dict[str, Any]:
    """The default paths in a process without HOME, for a user that the user database does not know."""
    program = f"""
import json, os, pwd, tempfile
os.environ.pop("HOME", None)
def unknown(uid): raise KeyError(uid)
pwd.getpwuid = unknown
{prelude}
from r3_lite.settings import load_settings
settings = load_settings()
print(json.dumps([str(settings.db_path), str(settings.model_cache), [str(root) for root in settings.import_roots]]))
"""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("XDG_")}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    db_path, model_cache, roots = json.loads(ended.stdout)
    return {"db_path": db_path, "model_cache": model_cache, "roots": roots}


def test_without_a_home_folder_the_paths_are_named_and_the_machine_is_not_opened_to_imports() -> None:
    found = read_without_home()
    assert found["db_path"] == "/.local/share/r3-lite/memories.db"
    assert found["model_cache"] == "/.cache/r3-lite/models"
    assert found["roots"] == [str(Path(tempfile.gettempdir()).resolve())]


def test_the_settings_can_be_read_where_no_temporary_file_can_be_made() -> None:
    prelude = "def none(): raise FileNotFoundError\ntempfile.gettempdir = none"
    assert read_without_home(prelude)["roots"] == []


def test_a_home_folder_that_is_the_root_folder_is_no_import_root() -> None:
    prelude = 'os.environ["HOME"] = "/"'
    assert "/" not in read_without_home(prelude)["roots"]


def test_the_key_for_mem0_shows_in_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEM0_API_KEY", "CANARY")
    settings = load_settings()
    assert settings.mem0_api_key is not None
    assert settings.mem0_api_key.get_secret_value() == "CANARY"
    assert "CANARY" not in f"{settings!r} {settings} {settings.model_dump_json()}"

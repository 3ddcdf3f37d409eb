"""The documents say what the program does."""

import importlib.util
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pydantic import AliasChoices

from r3_lite import limits
from r3_lite.settings import Settings

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
AGENTS = (ROOT / "AGENTS.md").read_text(encoding="utf-8")
TOOLS = (ROOT / "docs" / "tools.md").read_text(encoding="utf-8")
COMMANDS = (
    *"serve demo add search get list delete import dedupe graph stats".split(),
    *"export backup restore history restore-memory purge config models".split(),
)


def names_of(field: str) -> list[str]:
    """Return the variables that set a field, the standard one first."""
    alias = Settings.model_fields[field].validation_alias
    return [str(name) for name in alias.choices] if isinstance(alias, AliasChoices) else [f"R3_{field.upper()}"]


@pytest.fixture
def document_tools() -> Any:
    """The script that writes the tool reference."""
    spec = importlib.util.spec_from_file_location("document_tools", ROOT / "scripts" / "document_tools.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tool_reference_is_what_the_server_says(document_tools: Any) -> None:
    assert document_tools.main(["--check"]) == 0


def test_an_outdated_tool_reference_is_noticed_and_written_anew(
    document_tools: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document_tools.TARGET = tmp_path / "tools.md"
    document_tools.TARGET.write_text(TOOLS.replace("add_memory", "add", 1), encoding="utf-8")
    assert document_tools.main(["--check"]) == 1
    assert capsys.readouterr().err == "docs/tools.md is out of date: run `make docs`.\n"
    assert document_tools.main([]) == 0
    assert document_tools.TARGET.read_text(encoding="utf-8") == TOOLS


@pytest.mark.parametrize("tool", re.findall(r"^## (\w+)$", TOOLS, re.MULTILINE))
def test_the_readme_names_every_tool(tool: str) -> None:
    assert f"`{tool}`" in README


@pytest.mark.parametrize("command", COMMANDS)
def test_the_readme_names_every_command(command: str) -> None:
    assert f"r3-lite {command}" in README


@pytest.mark.parametrize("field", list(Settings.model_fields))
def test_the_readme_names_every_setting(field: str) -> None:
    for name in names_of(field):
        assert f"`{name}`" in README


def test_the_readme_names_no_setting_that_does_not_exist() -> None:
    known = {name for field in Settings.model_fields for name in names_of(field)}
    assert set(re.findall(r"`((?:R3|MEM0)_[A-Z_]+)`", README)) <= known


@pytest.mark.parametrize(
    "limit", [limits.MAX_CONTENT, limits.MAX_METADATA, limits.MAX_DEPTH, limits.MAX_QUERY, limits.MAX_USER_ID]
)
def test_the_readme_tells_the_limits(limit: int) -> None:
    assert re.search(rf"\b{limit:,}\b", README.split("## Limits")[1])


@pytest.mark.parametrize(
    "target", ["help", "demo", "test", "test-gliner", "check", "bench", "plots", "inspect", "docs", "build", "clean"]
)
def test_make_explains_its_targets(target: str) -> None:
    listed = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    assert re.search(rf"^  make {target}\s+\w", listed, re.MULTILINE)


def test_the_agent_rules_stay_short() -> None:
    assert len(AGENTS.splitlines()) <= 60


def test_the_docs_name_only_make_targets_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    documents = [README, AGENTS, *(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))]
    named = {name for text in documents for name in re.findall(r"(?:`| {4}|^)make ([\w-]+)", text, re.MULTILINE)}
    assert named <= targets

"""What may know of what: imports go one way, SQL lives in few places, and starting up loads nothing heavy."""

import ast
import json
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import r3_lite

PACKAGE = Path(r3_lite.__file__).parent
MODULES = sorted(path.stem for path in PACKAGE.glob("*.py"))

# From the top to the bottom: a module imports what lies below it, or beside it without going round in a circle.
LAYERS = [
    {"__main__", "cli", "commands", "keeping", "demo", "app", "graph_tools", "upkeep_tools", "serving"},
    {"engine", "answer", "health", "cache_upkeep", "knowledge", "models", "render", "graph_text", "duplicates_text"},
    {"indexer", "transfer", "recover", "backup", "retrieval", "cache"},
    {"merging", "keywords", "vectors", "graph", "similar", "history", "jobs", "wordforms", "scope", "codes", "store"}
    | {"accesses", "export", "turns"},
    {"db", "copies", "sqlite_errors"},
]
# Everything else computes: it is given values and returns values.
WITH_DATABASE = {module for layer in LAYERS for module in layer}
HOLDS_SQL = LAYERS[-2] | {"db", "backup"}
KNOWS_APSW = HOLDS_SQL | {"copies", "sqlite_errors", "recover", "engine", "retrieval", "health", "indexer"}
SERVES = {"app", "graph_tools", "upkeep_tools", "serving", "demo"}
HEAVY = {"numpy", "onnxruntime", "fastembed", "tokenizers", "huggingface_hub", "sqlite_vec", "psutil", "gliner"}

_SQL = re.compile(
    r"\s*(SELECT|INSERT|REPLACE|UPDATE|DELETE|CREATE|DROP|ALTER|WITH|PRAGMA|BEGIN|COMMIT|ROLLBACK|VACUUM|ATTACH)\b.*\S"
)


@dataclass(frozen=True)
class Import:
    """A module imported, and whether as soon as the importing one is."""

    name: str
    at_once: bool


@cache
def tree(module: str) -> ast.Module:
    return ast.parse((PACKAGE / f"{module}.py").read_text(encoding="utf-8"))


@cache
def imports(module: str) -> frozenset[Import]:
    """All imports that run, those inside functions too; not those for the type checker alone."""
    found: set[Import] = set()

    def walk(node: ast.AST, inside: bool) -> None:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if isinstance(node, ast.Import):
            found.update(Import(alias.name, not inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = [f"r3_lite.{a.name}" for a in node.names] if node.module == "r3_lite" else [node.module or ""]
            found.update(Import(name, not inside) for name in names)
        for child in ast.iter_child_nodes(node):
            walk(child, inside)

    walk(tree(module), inside=False)
    return frozenset(found)


def own(module: str) -> set[str]:
    """The modules of the package that a module imports, sooner or later."""
    names = {found.name.split(".")[1] for found in imports(module) if found.name.startswith("r3_lite.")}
    return names & set(MODULES)


def foreign(module: str, *, at_once: bool) -> set[str]:
    return {found.name.split(".")[0] for found in imports(module) if found.at_once or not at_once} - {"r3_lite"}


def layer(module: str) -> int:
    return next((place for place, names in enumerate(LAYERS) if module in names), len(LAYERS))


def test_the_layers_name_modules_that_there_are() -> None:
    assert set(MODULES) >= WITH_DATABASE


@pytest.mark.parametrize("module", sorted(WITH_DATABASE & set(MODULES)))
def test_a_module_imports_nothing_from_above(module: str) -> None:
    assert {other for other in own(module) if layer(other) < layer(module)} == set()


@pytest.mark.parametrize("module", sorted(set(MODULES) - WITH_DATABASE))
def test_what_only_computes_knows_of_no_database(module: str) -> None:
    assert own(module) & WITH_DATABASE == set()
    assert foreign(module, at_once=False) & {"apsw", "sqlite3"} == set()


def test_imports_never_go_round_in_a_circle() -> None:
    done: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, " → ".join((*way, module))
        if module not in done:
            for other in own(module):
                visit(other, (*way, module))
            done.add(module)

    for module in MODULES:
        visit(module, ())


@pytest.mark.parametrize("module", sorted(set(MODULES) - SERVES))
def test_only_the_server_and_its_demo_know_of_fastmcp(module: str) -> None:
    assert foreign(module, at_once=True) & {"fastmcp", "mcp", "mcp_types"} == set()
    if module not in ("wire", "cli"):
        assert foreign(module, at_once=False) & {"fastmcp", "mcp", "mcp_types"} == set()


@pytest.mark.parametrize("module", sorted(set(MODULES) - KNOWS_APSW))
def test_few_modules_know_of_sqlite(module: str) -> None:
    assert foreign(module, at_once=False) & {"apsw", "sqlite3"} == set()


def statements(module: str) -> list[str]:
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
        and _SQL.match(node.value)
    ]


@pytest.mark.parametrize("module", sorted(set(MODULES) - HOLDS_SQL))
def test_statements_live_in_few_modules(module: str) -> None:
    allowed = {"PRAGMA quick_check"} if module == "health" else set()
    assert set(statements(module)) - allowed == set()


def test_the_search_for_statements_finds_them() -> None:
    assert all(statements(module) for module in HOLDS_SQL & set(MODULES))


@pytest.mark.parametrize("module", MODULES)
def test_every_module_says_in_its_first_line_what_it_is_for(module: str) -> None:
    documented = ast.get_docstring(tree(module)) or ""
    assert documented.split("\n")[0].endswith((".", ":"))


@pytest.mark.parametrize("module", MODULES)
def test_no_module_bears_a_name_of_another_library(module: str) -> None:
    """A file that is run by its path has its folder first among the places where modules are looked for."""
    assert module in ("__init__", "__main__") or module not in sys.stdlib_module_names
    used = set().union(*(foreign(other, at_once=False) for other in MODULES))
    assert module not in used


def loaded_by(statement: str) -> set[str]:
    """The top-level modules in a fresh interpreter after one statement."""
    program = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    return {name.split(".")[0] for name in json.loads(ended.stdout)}


def test_the_server_is_imported_without_a_model_or_anything_heavy() -> None:
    loaded = loaded_by("import r3_lite.app")
    assert "fastmcp" in loaded
    assert loaded & HEAVY == set()


def test_the_engine_is_imported_without_the_server() -> None:
    loaded = loaded_by("import r3_lite.engine, r3_lite.models, r3_lite.render")
    assert loaded & (HEAVY | {"fastmcp", "mcp"}) == set()


def test_the_command_line_is_imported_without_server_and_store() -> None:
    assert loaded_by("import r3_lite.cli") & (HEAVY | {"fastmcp", "mcp", "pydantic", "apsw"}) == set()


@pytest.mark.parametrize("module", ["text", "dedupe", "filters", "query", "search", "corrections"])
def test_what_only_computes_is_imported_without_a_database(module: str) -> None:
    assert loaded_by(f"import r3_lite.{module}") & (HEAVY | {"apsw", "pydantic", "fastmcp"}) == set()


def test_importing_the_server_starts_nothing_and_says_nothing() -> None:
    program = "import threading, r3_lite.app\nprint(threading.active_count())"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert (ended.stdout.split(), ended.stderr) == (["1"], "")

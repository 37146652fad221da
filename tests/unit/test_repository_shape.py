"""Who knows one service knows all four; what READMEs and checks promise is there."""

import ast
import importlib.util
import re
import subprocess
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.databases import REPOSITORY, SERVICES

ROOMS: Final = {
    "README.md",
    "__init__.py",
    "__main__.py",
    "settings.py",
    "app.py",
    "consumers.py",
    "api",
    "usecases",
    "domain",
    "storage",
    "clients",
    "migrations",
}
FURTHER_ROOMS: Final = {"pricing": {"price_books"}}
"""DESIGN 4 keeps the default book beside the code."""
HEADINGS: Final = ["Owns", "Does not own", "Hears", "Tells", "Invariants"]
MACHINE_TRACES: Final = re.compile(
    r"(?<![\w.])/(?:work|root|Users)/\w|/home/(?!app\b)\w|(?<!emit-)index-url|pythonhosted\.org|pypi\.org/simple|"
    r"repo1?\.maven\.|registry\.npmjs|\bmirrors?\.\w+\.\w"
)
BINARY_SUFFIXES: Final = {".png", ".jpg", ".ico", ".woff2"}


def _tracked_files() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout
    return [REPOSITORY / name for name in listing.split("\0") if name]


@pytest.mark.parametrize("service", SERVICES)
def test_each_service_has_the_same_rooms_and_no_others(service: str) -> None:
    found = {path.name for path in (REPOSITORY / "services" / service).iterdir()} - {"__pycache__"}
    assert found == ROOMS | FURTHER_ROOMS.get(service, set())


@pytest.mark.parametrize("service", SERVICES)
def test_a_readme_says_what_is_owned_heard_told_and_held(service: str) -> None:
    text = (REPOSITORY / "services" / service / "README.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert [heading for heading in headings if heading in HEADINGS] == HEADINGS


@pytest.mark.parametrize("service", SERVICES)
def test_each_invariant_names_a_test_that_exists(service: str) -> None:
    text = (REPOSITORY / "services" / service / "README.md").read_text(encoding="utf-8")
    section = re.split(r"^## ", text.partition("## Invariants\n")[2], flags=re.MULTILINE)[0]
    invariants = re.findall(
        r"^(?:- (?:.|\n  )+|\|(?! ?-)(?!.*test that holds|.*held by).+)", section, flags=re.MULTILINE
    )
    assert invariants
    known = _test_names()
    for invariant in invariants:
        named = set(re.findall(r"test_\w+|conftest", invariant))
        assert named, f"no test is named: {invariant}"
        assert named <= known, f"no such test: {sorted(named - known)}"


@cache
def _test_names() -> frozenset[str]:
    """Every test's and every test file's name; `conftest` stands for checks made after every test."""
    files = [*(REPOSITORY / "tests").rglob("*test*.py")]
    return frozenset().union({file.stem for file in files}, *map(_functions, files))


def _functions(file: Path) -> set[str]:
    if not file.exists():
        return set()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    } | {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def test_what_is_shared_has_at_least_two_users() -> None:
    users: dict[str, set[str]] = defaultdict(set)
    for root in ("services", "shared", "deploy", "benchmarks"):
        for file in (REPOSITORY / root).rglob("*.py"):
            for module in _imports(file):
                users[module].add(_user(file))
    for file in (REPOSITORY / "shared").rglob("*.py"):
        if file.name in ("__init__.py", "__main__.py"):
            continue
        module = _module(file)
        package = module.rpartition(".")[0]
        known = users[module] | (users[package] if package != "shared" else set())
        assert len(known - {_user(file)}) >= 2, f"{module} is used by {sorted(known) or 'nobody'}"


def _imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _user(file: Path) -> str:
    """A service is one user, whatever its room; in `shared` each module is one."""
    parts = file.relative_to(REPOSITORY).parts
    return _module(file) if parts[0] == "shared" else "/".join(parts[:2])


def _module(file: Path) -> str:
    return ".".join(file.relative_to(REPOSITORY).with_suffix("").parts)


def test_no_file_names_a_machine_or_a_registry() -> None:
    for file in _tracked_files():
        if file == Path(__file__) or file.suffix in BINARY_SUFFIXES or not file.exists():
            continue
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            assert not MACHINE_TRACES.search(line), f"{file.relative_to(REPOSITORY)}:{number}: {line}"


def test_the_walls_stand_around_modules_that_exist() -> None:
    """A contract with a mistyped name passes in silence."""
    project: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    for contract in project["tool"]["importlinter"]["contracts"]:
        for key in ("modules", "source_modules", "forbidden_modules"):
            for module in contract.get(key, []):
                assert "*" not in module, contract["name"]
                assert importlib.util.find_spec(module) is not None, f"{contract['name']}: {module}"

"""Every error code is documented, every documented one is in the code and is provoked by a test."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from tests.support.databases import REPOSITORY

API: Final = (REPOSITORY / "docs" / "api.md").read_text(encoding="utf-8")
NEVER_SENT: Final = {"refused", "http_error", "unauthorized"}
"""Of a base class, and of statuses that nothing here raises: last resorts, not answers."""
ONLY_OVER_HTTP: Final = {"source_not_allowed"}
"""Of the door, which knows who is calling; on Kafka the broker's access control decides that."""
CODE: Final = re.compile(r"[a-z]+(?:_[a-z]+)*")


def _documented(heading: str) -> set[str]:
    """The codes in the first column of a section's tables; one row may name several."""
    section = re.split(r"^## ", API.partition(f"## {heading}\n")[2], flags=re.MULTILINE)[0]
    first_columns = re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE)
    return {code for column in first_columns for code in re.findall(r"`([a-z_]+)`", column)}


def _trees() -> Iterator[ast.Module]:
    for directory in ("shared", "services"):
        for file in (REPOSITORY / directory).rglob("*.py"):
            yield ast.parse(file.read_text(encoding="utf-8"))


def _problem_codes() -> set[str]:
    found = set()
    for tree in _trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found |= {code for statement in node.body for code in _assigned_code(statement)}
            elif isinstance(node, ast.Call) and _name(node.func) == "problem_response" and len(node.args) > 1:
                found |= _text(node.args[1])
            elif isinstance(node, ast.AnnAssign) and _name(node.target) == "_HTTP_CODES":
                assert isinstance(node.value, ast.Dict)
                found |= {code for value in node.value.values for code in _text(value)}
    return found


def _codes_given_to(function: str, position: int) -> set[str]:
    """Literals, or constants of the same module, that calls of the function name."""
    found = set()
    for tree in _trees():
        constants = {
            _name(node.targets[0]): _text(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Assign) and len(node.targets) == 1
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _name(node.func) == function and len(node.args) > position:
                code = node.args[position]
                found |= _text(code) | constants.get(_name(code), set())
    return found


def _assigned_code(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.Assign) and _name(statement.targets[0]) == "code":
        return _text(statement.value)
    return set()


def _text(node: ast.expr) -> set[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value):
        return {node.value}
    return set()


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def test_problem_codes_are_the_documented_ones() -> None:
    assert _problem_codes() - NEVER_SENT == _documented("Problem types")


def test_codes_of_events_are_the_documented_ones() -> None:
    assert _codes_given_to("EventRefused", 0) == _documented("Usage events")


def test_codes_of_dead_letters_are_the_documented_ones() -> None:
    given = _codes_given_to("EventRefused", 0) | _codes_given_to("Rejected", 1)
    assert _dead_letter_codes() == given - ONLY_OVER_HTTP


def test_every_documented_code_is_provoked_by_a_test() -> None:
    named = {
        code
        for file in (REPOSITORY / "tests").rglob("test_*.py")
        if file != Path(__file__)
        for code in re.findall(r"[\"'`/]([a-z_]+)[\"'`]", file.read_text(encoding="utf-8"))
    }
    assert _documented("Problem types") | _documented("Usage events") | _dead_letter_codes() <= named


def _dead_letter_codes() -> set[str]:
    document: dict[str, Any] = yaml.safe_load(
        (REPOSITORY / "docs" / "asyncapi.yaml").read_text(encoding="utf-8")
    )
    headers = document["components"]["schemas"]["DeadLetterHeaders"]["properties"]
    return set(headers["dead-letter-code"]["enum"])

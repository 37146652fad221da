"""docs/asyncapi.yaml and the code tell one story: topics, types, headers, codes."""

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest
import yaml

from shared.contracts.facts import AccountOpened, AccountStanding, ChargeRated, UsageMetered
from shared.contracts.topics import ALL_TOPICS
from shared.contracts.usage import EVENT_TYPE, UsageEvent
from tests.support.databases import REPOSITORY

DOCUMENT: Final[dict[str, Any]] = yaml.safe_load(
    (REPOSITORY / "docs" / "asyncapi.yaml").read_text(encoding="utf-8")
)
SCHEMAS: Final[dict[str, Any]] = DOCUMENT["components"]["schemas"]
_WORDS_ONLY: Final = {"title", "description", "examples", "format", "const"}
"""What the document may add to what the types hold."""

_, TYPES = msgspec.json.schema_components(
    [UsageEvent, UsageMetered, ChargeRated, AccountOpened, AccountStanding],
    ref_template="#/components/schemas/{name}",
)


def _essence(schema: Any) -> Any:
    """The schema without words; enumerations and required members in one order, `Range` written out."""
    if isinstance(schema, list):
        return [_essence(item) for item in schema]
    if not isinstance(schema, dict):
        return schema.replace(r"\Z", "$") if isinstance(schema, str) else schema
    if schema.get("$ref") == "#/components/schemas/Range":
        return _essence(SCHEMAS["Range"])
    plain = {name: _essence(value) for name, value in schema.items() if name not in _WORDS_ONLY}
    for name in ("enum", "required"):
        if name in plain:
            plain[name] = sorted(plain[name])
    if isinstance(schema.get("properties"), dict):
        plain["properties"] = {name: _essence(value) for name, value in schema["properties"].items()}
    return plain


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


@pytest.mark.parametrize("name", TYPES)
def test_a_type_is_documented_as_it_is(name: str) -> None:
    assert _essence(SCHEMAS[name]) == _essence(TYPES[name])


def test_every_reference_leads_somewhere_and_every_schema_is_used() -> None:
    references = set(_references(DOCUMENT))
    for reference in references:
        place = DOCUMENT
        for part in reference.removeprefix("#/").split("/"):
            place = place[part]
    used = {reference.rpartition("/")[2] for reference in references if "/schemas/" in reference}
    assert used == set(SCHEMAS)


def test_every_topic_and_its_dead_letters_are_documented_as_they_are_kept() -> None:
    documented = {
        channel["address"]: channel["bindings"]["kafka"]["topicConfiguration"]["cleanup.policy"]
        for channel in DOCUMENT["channels"].values()
    }
    kept = {topic.name: ["compact", "delete"] if topic.compacted else ["delete"] for topic in ALL_TOPICS}
    assert documented == kept | {topic.dead_letter: ["delete"] for topic in ALL_TOPICS}


def test_what_a_service_hears_it_can_refuse() -> None:
    operations = DOCUMENT["operations"]
    for name in operations:
        service, _, verb = name.partition(".")
        if verb.startswith("hears"):
            assert f"{service}.refuses{verb.removeprefix('hears')}" in operations


def test_the_event_type_is_the_documented_one() -> None:
    assert SCHEMAS["UsageEvent"]["properties"]["type"]["const"] == EVENT_TYPE
    assert SCHEMAS["BinaryHeaders"]["properties"]["ce_type"]["const"] == EVENT_TYPE


def test_dead_letter_headers_are_those_that_the_loop_writes() -> None:
    source = (REPOSITORY / "shared" / "kafka" / "consumer.py").read_text(encoding="utf-8")
    assert set(re.findall(r'\("(dead-letter-[a-z]+)"', source)) == set(
        SCHEMAS["DeadLetterHeaders"]["properties"]
    )

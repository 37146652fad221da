from datetime import UTC, datetime, timedelta

import pytest

from shared.ids import ID_CHARACTERS_MAX, is_id, uuid7_source


@pytest.mark.parametrize("text", ["inst-8f2c", "/nodes/bj-yz-017", "a", "A.b_c:d@e", "x" * ID_CHARACTERS_MAX])
def test_names_of_the_contract_are_accepted(text: str) -> None:
    assert is_id(text)


@pytest.mark.parametrize(
    "text", ["", "a b", "a\n", "实例", "a|b", "x" * (ID_CHARACTERS_MAX + 1), "a'b", "\x00"]
)
def test_anything_else_is_not_a_name(text: str) -> None:
    assert not is_id(text)


def test_new_ids_are_version_7_and_sort_by_time() -> None:
    now = datetime(2026, 3, 10, 15, tzinfo=UTC)
    earlier = uuid7_source(lambda: now)()
    later = uuid7_source(lambda: now + timedelta(milliseconds=1))()
    assert (earlier.version, later.version) == (7, 7)
    assert earlier < later


def test_two_ids_of_one_instant_differ() -> None:
    new_id = uuid7_source(lambda: datetime(2026, 3, 10, 15, tzinfo=UTC))
    assert len({new_id() for _ in range(1_000)}) == 1_000

"""Columns of a hot batch as PostgreSQL array literals.

The driver looks into each element of a list for nested arrays, which costs as much as the rest of a batch.
One text per column is read by the server in a tenth of that.
"""

from collections.abc import Iterable
from typing import Final
from uuid import UUID

ACCOUNT_IDS: Final = "CAST(CAST(:account_ids AS text) AS text[])"
"""The parameter `account_ids` as ids() writes it."""


def integer_column(name: str) -> str:
    """The parameter of that name as integers() writes it."""
    return f"CAST(CAST(:{name} AS text) AS bigint[])"


def integers(values: Iterable[int]) -> str:
    """{1,2,3}"""
    return f"{{{','.join(map(str, values))}}}"


def ids(values: Iterable[str]) -> str:
    """{"a","b"}; ids and ledger accounts have only characters of shared.ids.ID_PATTERN: nothing to escape."""
    inner = '","'.join(values)
    return f'{{"{inner}"}}' if inner else "{}"


def uuids(values: Iterable[UUID | None]) -> str:
    """{"a",NULL}; a batch repeats few ids, so each is spelled once."""
    spelled: dict[UUID | None, str] = {None: "NULL"}
    parts = []
    for value in values:
        part = spelled.get(value)
        if part is None:
            part = spelled[value] = str(value)
        parts.append(part)
    return f"{{{','.join(parts)}}}"

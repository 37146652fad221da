"""The tables as the newest migration leaves them; a test compares the two."""

from typing import Final

from sqlalchemy import BigInteger, Column, DateTime, MetaData, PrimaryKeyConstraint, Table, Text, Uuid, text
from sqlalchemy.dialects.postgresql import INT4MULTIRANGE

metadata: Final = MetaData()

USAGE_WINDOW: Final = Table(
    "usage_window",
    metadata,
    Column("account_id", Text(collation="C"), nullable=False),
    Column("resource_id", Text(collation="C"), nullable=False),
    Column("hour", DateTime(timezone=True), nullable=False),
    Column("since", DateTime(timezone=True), nullable=False),
    # The first 128 bits of the SHA-256 of `state`, which can be longer than an index entry may be.
    Column("state_hash", Uuid, nullable=False),
    # Canonical JSON with the keys labels, mode, purchase, quantity, sku.
    Column("state", Text(collation="C"), nullable=False),
    # Covered seconds of the hour, within [0, 3600).
    Column("coverage", INT4MULTIRANGE, nullable=False),
    # Grows by one whenever coverage grows.
    Column("revision", BigInteger, nullable=False),
    PrimaryKeyConstraint("account_id", "resource_id", "hour", "since", "state_hash"),
)

REPUBLISH: Final = Table(
    "republish",
    metadata,
    Column("reference", Text(collation="C"), primary_key=True),
    # Resource-hours in [first_hour, until_hour) are told; without `until_hour`, up to the newest.
    Column("first_hour", DateTime(timezone=True), nullable=False),
    Column("until_hour", DateTime(timezone=True)),
    Column("requested_at", DateTime(timezone=True), nullable=False),
    # The last key of usage_window that was dealt with: told, or passed over as outside of the hours.
    Column("told_account_id", Text(collation="C")),
    Column("told_resource_id", Text(collation="C")),
    Column("told_hour", DateTime(timezone=True)),
    Column("hours_told", BigInteger, nullable=False, server_default=text("0")),
    Column("finished_at", DateTime(timezone=True)),
)

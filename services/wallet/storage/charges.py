"""Charges of resource-hours, and which account-hours wait for settlement."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from services.wallet.domain.charges import Charge
from services.wallet.domain.settlement import Allocation
from services.wallet.storage import arrays
from services.wallet.storage.accounts import expect_rows
from services.wallet.storage.arrays import ACCOUNT_IDS, integer_column

# Of two revisions the greater wins, whatever order they come in. `settled_lines` takes the old lines over
# when the first newer revision replaces those of the settlement.
_APPLY = text(
    f"""
    WITH applied AS (
        INSERT INTO charge AS held (account_id, hour, resource_id, revision, price_book, amount,
                                    rate_per_hour, covered_until, lines, unpriced)
        SELECT account_id, to_timestamp(hour), resource_id, revision, price_book, amount,
               rate_per_hour, to_timestamp(covered_until), lines, unpriced
        FROM unnest(
            {ACCOUNT_IDS}, {integer_column("hours")},
            CAST(CAST(:resource_ids AS text) AS text[]), {integer_column("revisions")},
            {integer_column("price_books")}, {integer_column("amounts")},
            {integer_column("rates_per_hour")}, {integer_column("covered_until")},
            CAST(:lines AS text[]), CAST(:unpriced AS text[])
        ) AS fact (account_id, hour, resource_id, revision, price_book, amount, rate_per_hour, covered_until,
                   lines, unpriced)
        ON CONFLICT (account_id, hour, resource_id) DO UPDATE SET
            revision = excluded.revision,
            price_book = excluded.price_book,
            amount = excluded.amount,
            rate_per_hour = excluded.rate_per_hour,
            covered_until = excluded.covered_until,
            lines = excluded.lines,
            unpriced = excluded.unpriced,
            lines_settled = held.lines_settled AND excluded.lines = held.lines,
            settled_lines = CASE WHEN held.lines_settled AND excluded.lines <> held.lines THEN held.lines
                                 ELSE held.settled_lines END
        WHERE (excluded.revision, excluded.price_book) > (held.revision, held.price_book)
        RETURNING account_id, hour, new.amount,
                  new.amount - coalesce(old.amount, 0) AS change,
                  new.amount <> coalesce(old.amount, 0) OR new.lines <> old.lines AS changed
    ), marked AS (
        INSERT INTO unsettled_hour (account_id, hour, marked_at)
        SELECT DISTINCT account_id, hour, CAST(:now AS timestamptz) FROM applied WHERE changed
        ORDER BY account_id, hour
        ON CONFLICT DO NOTHING
    )
    SELECT account_id, CAST(sum(change) AS bigint) AS change, bool_or(amount > 0) AS charged,
           count(*) AS applied
    FROM applied GROUP BY account_id
    """
)
_READY = """
    (account.charged_at <= :quiet_since OR waiting.marked_at <= :marked_until)
    AND (account.opened OR waiting.marked_at <= :unopened_until)
    AND waiting.account_id <> ALL(CAST(:set_aside AS text[]))
    AND (CAST(:only AS text) IS NULL OR waiting.account_id = :only)
"""
# The second half is prompt: what a lot that has ended still pays for is settled without waiting.
_ACCOUNTS_DUE = text(
    f"""
    SELECT DISTINCT due.account_id FROM (
        (SELECT waiting.account_id FROM unsettled_hour waiting JOIN account USING (account_id)
         WHERE waiting.hour <= :due_until AND {_READY}
         ORDER BY waiting.hour, waiting.account_id LIMIT :limit)
        UNION ALL
        (SELECT waiting.account_id
         FROM lot
         JOIN unsettled_hour waiting ON waiting.account_id = lot.account_id AND waiting.hour < lot.expires_at
         JOIN account ON account.account_id = waiting.account_id
         WHERE lot.open AND lot.expires_at <= :now AND {_READY}
         ORDER BY lot.expires_at LIMIT :limit)
    ) due ORDER BY due.account_id
    """
)
_HOURS_DUE = text(
    """
    SELECT account_id, hour, marked_at
    FROM unnest(CAST(:account_ids AS text[])) AS wanted (account_id) JOIN unsettled_hour USING (account_id)
    WHERE hour <= :due_until OR EXISTS (
        SELECT FROM lot
        WHERE lot.account_id = unsettled_hour.account_id AND open
          AND expires_at <= :now AND expires_at > unsettled_hour.hour)
    ORDER BY hour, account_id LIMIT :limit
    """
)
_TO_SETTLE = text(
    """
    SELECT held.account_id, held.hour, held.resource_id, held.amount, held.settled,
           held.lines_settled OR held.settled_lines IS NOT NULL AS settled_before,
           CASE WHEN wanted.cut THEN held.lines END AS lines,
           CASE WHEN NOT wanted.cut THEN NULL WHEN held.lines_settled THEN held.lines
                ELSE held.settled_lines END AS settled_lines
    FROM unnest(CAST(:account_ids AS text[]), CAST(:hours AS timestamptz[]), CAST(:cuts AS boolean[]))
         AS wanted (account_id, hour, cut)
    JOIN charge held ON held.account_id = wanted.account_id AND held.hour = wanted.hour
    WHERE NOT held.lines_settled OR held.amount <> held.settled
    ORDER BY held.account_id, held.hour, held.resource_id
    """
)
_MARK_SETTLED = text(
    """
    UPDATE charge SET settled = charge.amount, lines_settled = true, settled_lines = NULL
    FROM unnest(CAST(:account_ids AS text[]), CAST(:hours AS timestamptz[])) AS done (account_id, hour)
    WHERE charge.account_id = done.account_id AND charge.hour = done.hour
      AND (NOT charge.lines_settled OR charge.amount <> charge.settled)
    """
)
_UNMARK = text(
    """
    DELETE FROM unsettled_hour
    USING unnest(CAST(:account_ids AS text[]), CAST(:hours AS timestamptz[])) AS done (account_id, hour)
    WHERE unsettled_hour.account_id = done.account_id AND unsettled_hour.hour = done.hour
    """
)
_ALLOCATIONS = text(
    """
    SELECT a.account_id, a.hour, a.resource_id, a.seq, a.lot_id, a.from_second, a.to_second, a.amount,
           a.paid_at
    FROM unnest(CAST(:account_ids AS text[]), CAST(:hours AS timestamptz[]), CAST(:resource_ids AS text[]))
         AS wanted (account_id, hour, resource_id)
    JOIN allocation a ON a.account_id = wanted.account_id AND a.hour = wanted.hour
                     AND a.resource_id = wanted.resource_id
    ORDER BY a.account_id, a.hour, a.resource_id, a.seq
    """
)
_INSERT_ALLOCATIONS = text(
    f"""
    INSERT INTO allocation (account_id, hour, resource_id, seq, entry_id, lot_id, from_second, to_second,
                            amount, paid_at)
    SELECT account_id, to_timestamp(hour), resource_id, seq, entry_id, lot_id, from_second, to_second,
           amount, CAST(:now AS timestamptz)
    FROM unnest(
        {ACCOUNT_IDS}, {integer_column("hours")}, CAST(CAST(:resource_ids AS text) AS text[]),
        {integer_column("seqs")}, CAST(CAST(:entry_ids AS text) AS uuid[]),
        CAST(CAST(:lot_ids AS text) AS uuid[]), {integer_column("from_seconds")},
        {integer_column("to_seconds")}, {integer_column("amounts")}
    ) AS paid (account_id, hour, resource_id, seq, entry_id, lot_id, from_second, to_second, amount)
    """
)
_OLDEST_DUE = text("SELECT min(hour) FROM unsettled_hour")
_PAGE = text(
    """
    SELECT hour, resource_id, revision, price_book, amount, settled, lines, unpriced, covered_until
    FROM charge
    WHERE account_id = :account_id AND hour >= :first AND hour < :until
      AND (CAST(:resource_id AS text) IS NULL OR resource_id = :resource_id)
      AND (hour, resource_id) > (:after_hour, :after_resource_id)
    ORDER BY hour, resource_id LIMIT :limit
    """
)
_PAID_BY = text(
    """
    SELECT a.hour, a.resource_id, a.lot_id, lot.kind, CAST(sum(a.amount) AS bigint) AS amount
    FROM unnest(CAST(:hours AS timestamptz[]), CAST(:resource_ids AS text[])) AS wanted (hour, resource_id)
    JOIN allocation a ON a.account_id = :account_id AND a.hour = wanted.hour
                     AND a.resource_id = wanted.resource_id
    LEFT JOIN lot ON lot.account_id = a.account_id AND lot.lot_id = a.lot_id
    GROUP BY a.hour, a.resource_id, a.lot_id, lot.kind
    HAVING sum(a.amount) <> 0
    ORDER BY a.hour, a.resource_id, min(a.seq)
    """
)


class Applied(NamedTuple):
    """What a batch did to one account: micro-yuan charged more, rows that were news."""

    account_id: str
    change: int
    charged: bool
    applied: int


class DueLimits(NamedTuple):
    """Due are hours that began at or before `due_until`, or before the end of a lot that has ended by `now`
    with something left, of accounts that were charged last at or before `quiet_since`, or marked at or before
    `marked_until`; of accounts not opened yet, whose trial may still come, those marked at or before
    `unopened_until`.
    """

    now: datetime
    due_until: datetime
    quiet_since: datetime
    marked_until: datetime
    unopened_until: datetime


class HourDue(NamedTuple):
    account_id: str
    hour: datetime
    marked_at: datetime


class ChargeRow(NamedTuple):
    """`lines` and `settled_lines` are JSON, and only there for an hour that is cut."""

    account_id: str
    hour: datetime
    resource_id: str
    amount: int
    settled: int
    settled_before: bool
    lines: str | None
    settled_lines: str | None


class AllocationRow(NamedTuple):
    """Of an hour in seconds since 1970."""

    account_id: str
    hour: int
    resource_id: str
    entry_id: UUID
    allocation: Allocation


class ChargeListed(NamedTuple):
    hour: datetime
    resource_id: str
    revision: int
    price_book: int
    amount: int
    settled: int
    lines: str
    unpriced: str | None
    covered_until: datetime


class PaidBy(NamedTuple):
    """`lot_id` None: owed."""

    lot_id: UUID | None
    kind: str | None
    amount: int


async def apply(connection: AsyncConnection, charges: Sequence[Charge], now: datetime) -> list[Applied]:
    """Store what is newer than what is held, and mark its hours for settlement. Charges in order of key."""
    columns = list(zip(*charges, strict=True))
    rows = await connection.execute(
        _APPLY,
        {
            "account_ids": arrays.ids(columns[0]),
            "hours": arrays.integers(columns[1]),
            "resource_ids": arrays.ids(columns[2]),
            "revisions": arrays.integers(columns[3]),
            "price_books": arrays.integers(columns[4]),
            "amounts": arrays.integers(columns[5]),
            "rates_per_hour": arrays.integers(columns[6]),
            "covered_until": arrays.integers(columns[7]),
            "lines": columns[8],
            "unpriced": columns[9],
            "now": now,
        },
    )
    return [Applied(*row) for row in rows]


async def accounts_due(
    connection: AsyncConnection,
    limits: DueLimits,
    set_aside: Collection[str],
    only: str | None,
    limit: int,
) -> list[str]:
    """Accounts with an hour to settle, the oldest hours first."""
    rows = await connection.execute(
        _ACCOUNTS_DUE,
        {
            **limits._asdict(),
            "set_aside": list(set_aside),
            "only": only,
            "limit": limit,
        },
    )
    return list(rows.scalars())


async def hours_due(
    connection: AsyncConnection, account_ids: Collection[str], limits: DueLimits, limit: int
) -> list[HourDue]:
    rows = await connection.execute(
        _HOURS_DUE,
        {
            "account_ids": list(account_ids),
            "due_until": limits.due_until,
            "now": limits.now,
            "limit": limit,
        },
    )
    return [HourDue(*row) for row in rows]


async def to_settle(
    connection: AsyncConnection, hours: Sequence[HourDue], cuts: Sequence[bool]
) -> list[ChargeRow]:
    """The charges of these hours that are not as they were settled, in order of key."""
    rows = await connection.execute(
        _TO_SETTLE,
        {
            "account_ids": [due.account_id for due in hours],
            "hours": [due.hour for due in hours],
            "cuts": list(cuts),
        },
    )
    return [ChargeRow(*row) for row in rows]


async def mark_settled(connection: AsyncConnection, hours: Sequence[HourDue], charges_expected: int) -> None:
    keys = {"account_ids": [due.account_id for due in hours], "hours": [due.hour for due in hours]}
    result = await connection.execute(_MARK_SETTLED, keys)
    expect_rows(result.rowcount, charges_expected, "charge")
    result = await connection.execute(_UNMARK, keys)
    expect_rows(result.rowcount, len(hours), "unsettled_hour")


async def allocations(
    connection: AsyncConnection, charges: Sequence[ChargeRow]
) -> Mapping[tuple[str, datetime, str], list[Allocation]]:
    """Who has paid each of these charges until now, oldest first."""
    paid: dict[tuple[str, datetime, str], list[Allocation]] = {}
    rows = await connection.execute(
        _ALLOCATIONS,
        {
            "account_ids": [charge.account_id for charge in charges],
            "hours": [charge.hour for charge in charges],
            "resource_ids": [charge.resource_id for charge in charges],
        },
    )
    for row in rows:
        paid.setdefault((row[0], row[1], row[2]), []).append(Allocation(*row[3:]))
    return paid


async def insert_allocations(
    connection: AsyncConnection, rows: Sequence[AllocationRow], now: datetime
) -> None:
    if not rows:
        return
    allocations = [row.allocation for row in rows]
    await connection.execute(
        _INSERT_ALLOCATIONS,
        {
            "account_ids": arrays.ids(row.account_id for row in rows),
            "hours": arrays.integers(row.hour for row in rows),
            "resource_ids": arrays.ids(row.resource_id for row in rows),
            "entry_ids": arrays.uuids(row.entry_id for row in rows),
            "seqs": arrays.integers(allocation.seq for allocation in allocations),
            "lot_ids": arrays.uuids(allocation.lot_id for allocation in allocations),
            "from_seconds": arrays.integers(allocation.from_second for allocation in allocations),
            "to_seconds": arrays.integers(allocation.to_second for allocation in allocations),
            "amounts": arrays.integers(allocation.amount for allocation in allocations),
            "now": now,
        },
    )


async def oldest_unsettled(connection: AsyncConnection) -> datetime | None:
    hour: datetime | None = await connection.scalar(_OLDEST_DUE)
    return hour


async def page(
    connection: AsyncConnection,
    account_id: str,
    first: datetime,
    until: datetime,
    resource_id: str | None,
    after: tuple[datetime, str],
    limit: int,
) -> list[ChargeListed]:
    """Charges of hours that begin in [first, until), in order of hour and resource."""
    rows = await connection.execute(
        _PAGE,
        {
            "account_id": account_id,
            "first": first,
            "until": until,
            "resource_id": resource_id,
            "after_hour": after[0],
            "after_resource_id": after[1],
            "limit": limit,
        },
    )
    return [ChargeListed(*row) for row in rows]


async def paid_by(
    connection: AsyncConnection, account_id: str, charges: Sequence[ChargeListed]
) -> Mapping[tuple[datetime, str], list[PaidBy]]:
    """Net of what was given back, first burned first."""
    payers: dict[tuple[datetime, str], list[PaidBy]] = {}
    rows = await connection.execute(
        _PAID_BY,
        {
            "account_id": account_id,
            "hours": [charge.hour for charge in charges],
            "resource_ids": [charge.resource_id for charge in charges],
        },
    )
    for row in rows:
        payers.setdefault((row.hour, row.resource_id), []).append(PaidBy(row.lot_id, row.kind, row.amount))
    return payers

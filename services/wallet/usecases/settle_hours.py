"""Closed hours settle: the journal is made to agree with the charges, lots burn in order (R11-R14)."""

import logging
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec
from opentelemetry.metrics import get_meter

from services.wallet.domain.account import Account, assessed
from services.wallet.domain.lots import Lot
from services.wallet.domain.settlement import (
    AccountSettled,
    Allocation,
    ChargeToSettle,
    HourToSettle,
    cuts_of,
    settle_account,
)
from services.wallet.storage import accounts, charges, journal, lots
from services.wallet.storage.charges import AllocationRow, ChargeRow, DueLimits, HourDue
from services.wallet.storage.journal import Entry
from services.wallet.storage.lots import NewLot, RemainingChange
from services.wallet.usecases.context import Context
from services.wallet.usecases.telling import count_crossings
from shared.contracts.facts import ChargeLine
from shared.database import is_transient
from shared.time import SECONDS_PER_HOUR, epoch_second, format_instant, from_epoch

_meter = get_meter(__name__)
_hours = _meter.create_counter("wallet.settled.hours", description="account-hours settled")
_paid = _meter.create_counter("wallet.settled.micro", description="micro-yuan moved to revenue")
_returned = _meter.create_counter("wallet.given_back.micro", description="micro-yuan given back (R14)")
_age = _meter.create_gauge(
    "wallet.unsettled.age", unit="s", description="how long ago the oldest unsettled hour ended"
)

_aside = _meter.create_gauge(
    "wallet.settlement.set_aside", description="accounts that cannot be settled and are left out"
)

log = logging.getLogger(__name__)
_decode_lines = msgspec.json.Decoder(list[ChargeLine]).decode


class _Batch(NamedTuple):
    """All that settling some account-hours needs to know."""

    hours: Sequence[HourDue]
    charges: Mapping[tuple[str, datetime], Sequence[ChargeRow]]
    paid: Mapping[tuple[str, datetime, str], Sequence[Allocation]]
    lots: Mapping[str, Sequence[Lot]]


class Settler:
    """Settles around accounts that cannot be settled: one fault must not stop everybody's bills.

    Such an account is logged, counted, and set aside until the process starts again.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._set_aside: set[str] = set()

    async def settle(self) -> int:
        try:
            return await settle_hours(self._context, self._set_aside)
        except Exception as error:
            if is_transient(error):
                raise
            log.warning("a batch could not be settled, trying its accounts one by one: %s", error)
            return await self._settle_one_by_one()

    async def _settle_one_by_one(self) -> int:
        settled = 0
        for account_id in await _accounts_due(self._context, self._set_aside):
            try:
                settled += await settle_hours(self._context, self._set_aside, account_id)
            except Exception as error:
                if is_transient(error):
                    raise
                log.exception("account %s cannot be settled and is set aside", account_id)
                self._set_aside.add(account_id)
        _aside.set(len(self._set_aside))
        return settled


async def settle_hours(context: Context, set_aside: Collection[str] = (), only: str | None = None) -> int:
    """Settle account-hours that are due, each account's in order of time; how many. 0: nothing is due.

    Without the accounts in `set_aside`; of one account `only`, if given. One transaction under the locks of
    the accounts: a second worker waits, looks again and finds nothing.
    """
    settings = context.settings
    limits = _limits(context)
    async with context.database.transaction() as connection:
        account_ids = await charges.accounts_due(
            connection, limits, set_aside, only, settings.settle_hours_max
        )
        if not account_ids:
            return 0
        await accounts.lock(connection, account_ids)
        now = context.clock()
        before = await accounts.read(connection, account_ids, now)
        found = await charges.hours_due(connection, account_ids, limits, settings.settle_hours_max)
        hours = _ready(found, before, limits)
        if not hours:
            return 0
        account_ids = sorted({due.account_id for due in hours})
        paying = await lots.paying(connection, account_ids, min(due.hour for due in hours))
        cuts = [bool(cuts_of(epoch_second(due.hour), paying.get(due.account_id, ()))[1:-1]) for due in hours]
        rows = await charges.to_settle(connection, hours, cuts)
        again = [row for row in rows if row.settled_before]
        paid: Mapping[tuple[str, datetime, str], Sequence[Allocation]] = {}
        if again:
            paid = await charges.allocations(connection, again)
            paying |= await lots.every(connection, sorted({row.account_id for row in again}))
        batch = _Batch(hours, _by_hour(rows), paid, paying)
        settled = _settle(context, batch, before, now)
        entries, allocations, new_lots = _bookings(context, settled, now)
        await journal.book(connection, entries)
        await charges.insert_allocations(connection, allocations, now)
        await lots.insert(connection, new_lots, now)
        await lots.write_remaining(
            connection,
            [
                RemainingChange(account_id, lot_id, remaining)
                for account_id, result in settled.items()
                for lot_id, remaining in result.remaining.items()
            ],
        )
        await charges.mark_settled(connection, hours, len(rows))
        settled_now: dict[str, int] = defaultdict(int)
        for row in rows:
            settled_now[row.account_id] += row.amount - row.settled
        moved = {
            account_id: _moved(before[account_id], batch, settled[account_id], settled_now[account_id], now)
            for account_id in account_ids
        }
        paying_yet = [account_id for account_id in account_ids if before[account_id].due_from_ended]
        if paying_yet:
            for account_id, account in (await accounts.read(connection, paying_yet, now)).items():
                moved[account_id] = replace(moved[account_id], due_from_ended=account.due_from_ended)
        after = [assessed(account, context.limits) for account in moved.values()]
        crossed = await accounts.write(connection, before.values(), after, now)
    changes = [row.amount - row.settled for row in rows]
    _hours.add(len(hours))
    _paid.add(sum(change for change in changes if change > 0))
    _returned.add(-sum(change for change in changes if change < 0))
    count_crossings(crossed)
    return len(hours)


async def _accounts_due(context: Context, set_aside: Collection[str]) -> list[str]:
    async with context.database.reading() as connection:
        return await charges.accounts_due(
            connection, _limits(context), set_aside, None, context.settings.settle_hours_max
        )


def _limits(context: Context) -> DueLimits:
    settings = context.settings
    now = context.clock()
    return DueLimits(
        now=now,
        due_until=now - timedelta(seconds=settings.settle_grace_seconds + SECONDS_PER_HOUR),
        quiet_since=now - timedelta(seconds=settings.settle_quiet_seconds),
        marked_until=now - timedelta(seconds=settings.settle_wait_seconds),
        unopened_until=now - timedelta(seconds=settings.settle_unopened_wait_seconds),
    )


async def measure_unsettled(context: Context) -> None:
    async with context.database.reading() as connection:
        oldest = await charges.oldest_unsettled(connection)
    age = 0.0
    if oldest is not None:
        age = (context.clock() - oldest).total_seconds() - SECONDS_PER_HOUR
    _age.set(max(0.0, age))


def _ready(found: Sequence[HourDue], before: Mapping[str, Account], limits: DueLimits) -> list[HourDue]:
    """Hours of accounts that are quiet or have one that waited long enough: all of an account or none."""
    ready = set()
    for due in found:
        charged_at = before[due.account_id].charged_at
        if charged_at is None or charged_at <= limits.quiet_since or due.marked_at <= limits.marked_until:
            ready.add(due.account_id)
    return [due for due in found if due.account_id in ready]


def _by_hour(rows: Sequence[ChargeRow]) -> dict[tuple[str, datetime], list[ChargeRow]]:
    by_hour: dict[tuple[str, datetime], list[ChargeRow]] = defaultdict(list)
    for row in rows:
        by_hour[row.account_id, row.hour].append(row)
    return by_hour


def _settle(
    context: Context, batch: _Batch, before: Mapping[str, Account], now: datetime
) -> dict[str, AccountSettled]:
    hours: dict[str, list[HourToSettle]] = defaultdict(list)
    for due in batch.hours:
        rows = batch.charges.get((due.account_id, due.hour), ())
        hours[due.account_id].append(
            HourToSettle(epoch_second(due.hour), [_to_settle(row, batch) for row in rows])
        )
    return {
        account_id: settle_account(
            account_id,
            batch.lots.get(account_id, ()),
            before[account_id].debt,
            to_settle,
            now=now,
            ended_until=now - timedelta(seconds=context.settings.expiry_grace_seconds),
            new_lot_id=context.new_id,
        )
        for account_id, to_settle in hours.items()
    }


def _to_settle(row: ChargeRow, batch: _Batch) -> ChargeToSettle:
    return ChargeToSettle(
        row.resource_id,
        row.amount,
        row.settled,
        () if row.lines is None else _decode_lines(row.lines),
        () if row.settled_lines is None else _decode_lines(row.settled_lines),
        batch.paid.get((row.account_id, row.hour, row.resource_id), ()),
    )


def _bookings(
    context: Context, settled: Mapping[str, AccountSettled], now: datetime
) -> tuple[list[Entry], list[AllocationRow], list[NewLot]]:
    """One entry per account-hour of which something is paid or given back; its id grows with the hour."""
    entries: list[Entry] = []
    allocations: list[AllocationRow] = []
    new_lots: list[NewLot] = []
    for account_id, result in settled.items():
        entry_ids = sorted(context.new_id() for _ in result.hours)
        for hour, entry_id in zip(result.hours, entry_ids, strict=True):
            if not hour.allocations:
                continue
            start = from_epoch(hour.hour)
            text = format_instant(start)
            entries.append(
                Entry(
                    account_id,
                    entry_id,
                    "settlement",
                    None,
                    start,
                    now,
                    f"usage of the hour {text}",
                    None,
                    hour.transfers,
                )
            )
            allocations += [
                AllocationRow(account_id, hour.hour, resource_id, entry_id, allocation)
                for resource_id, allocation in hour.allocations
            ]
            new_lots += [
                NewLot(account_id, lot, f"correction of {text}", entry_id) for lot in hour.compensations
            ]
    return entries, allocations, new_lots


def _moved(
    account: Account, batch: _Batch, settled: AccountSettled, settled_now: int, now: datetime
) -> Account:
    """The account after settlement. Lots that have ended pay for their seconds but count for nothing now."""
    promotional = sum(
        settled.remaining[lot.lot_id] - lot.remaining
        for lot in batch.lots.get(account.account_id, ())
        if lot.lot_id in settled.remaining and not lot.is_cash and lot.is_valid_at(now)
    )
    promotional += sum(lot.remaining for hour in settled.hours for lot in hour.compensations)
    return replace(
        account,
        cash=account.cash + settled.cash_change,
        promotional=account.promotional + promotional,
        accrued=account.accrued - settled_now,
        debt=settled.debt,
    )

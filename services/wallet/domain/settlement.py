"""Settlement: which lot pays which seconds of an hour (R11-R14), as one pure function.

An hour is cut at each second at which a promotional lot begins or ends. What a charge owes for a piece is
the difference of two floors (R12), so the pieces add up to the charge whatever the cuts. Settlement moves
the difference between what is charged now and what was settled before, piece by piece: what is too much
goes back to the lots that paid the piece, last burned first (R14), what is missing is paid by the lots
that may pay it, in burn order, and what none can pay is owed (R13).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from uuid import UUID

from services.wallet.domain import chart
from services.wallet.domain.chart import Transfer
from services.wallet.domain.lots import COMPENSATION_DAYS, PRIORITY_OF_KIND, Lot
from shared.contracts.facts import ChargeLine
from shared.money import PERIOD_SECONDS, amount_micro
from shared.time import SECONDS_PER_HOUR


@dataclass(frozen=True, slots=True)
class Allocation:
    """`amount` micro-yuan of the seconds [from_second, to_second) of a charge, paid by a lot.

    `lot_id` None: nobody paid, it is owed. A negative amount undoes that much of the newest allocations of
    the same lot and seconds. `seq` counts within the charge.
    """

    seq: int
    lot_id: UUID | None
    from_second: int
    to_second: int
    amount: int
    paid_at: datetime


@dataclass(frozen=True, slots=True)
class ChargeToSettle:
    """A charge as it is now and as it was settled; lines may be left out in an hour without cuts."""

    resource_id: str
    amount: int
    settled: int = 0
    lines: Sequence[ChargeLine] = ()
    settled_lines: Sequence[ChargeLine] = ()
    paid: Sequence[Allocation] = ()


@dataclass(frozen=True, slots=True)
class HourToSettle:
    """`hour` is its start in seconds since 1970; charges in order of resource id."""

    hour: int
    charges: Sequence[ChargeToSettle]


@dataclass(frozen=True, slots=True)
class HourSettled:
    """The transfers of one entry, and who paid what; without transfers there is nothing to book."""

    hour: int
    transfers: Sequence[Transfer]
    allocations: Sequence[tuple[str, Allocation]]
    compensations: Sequence[Lot]


@dataclass(frozen=True, slots=True)
class AccountSettled:
    """`remaining` of each lot that changed, new lots left out; `cash_change` over all cash lots."""

    hours: Sequence[HourSettled]
    remaining: dict[UUID, int]
    cash_change: int
    debt: int


def cuts_of(hour: int, lots: Iterable[Lot]) -> list[int]:
    """Seconds of the hour at which its pieces begin and end, 0 and 3600 among them (R12)."""
    cuts = {0, SECONDS_PER_HOUR}
    for lot in lots:
        if not lot.is_cash:
            cuts.update((lot.first_second - hour, lot.end_second - hour))
    return sorted(cut for cut in cuts if 0 <= cut <= SECONDS_PER_HOUR)


def due_before(lines: Iterable[ChargeLine], second: int) -> int:
    """Micro-yuan of the lines' seconds before a second of the hour, by the floor of R6."""
    due = 0
    for line in lines:
        seconds = sum(min(until, second) - start for start, until in line.ranges if start < second)
        factors = [Fraction(factor.factor) for factor in line.factors]
        due += amount_micro(line.unit_price, line.quantity, seconds, factors, PERIOD_SECONDS[line.per])
    return due


def settle_account(
    account_id: str,
    lots: Sequence[Lot],
    debt: int,
    hours: Sequence[HourToSettle],
    *,
    now: datetime,
    ended_until: datetime,
    new_lot_id: Callable[[], UUID],
) -> AccountSettled:
    """Settle hours of one account, in order. `lots`: the open ones, those that cut one of the hours, and
    for hours settled before also those that paid them and all of cash. `ended_until`: lots that ended at or
    before it are past their grace (R15).
    """
    purse = _Purse(lots, debt)
    settled = [
        _settle_hour(account_id, purse, hour, _Booking(now, ended_until), new_lot_id) for hour in hours
    ]
    remaining = {
        lot.lot_id: purse.remaining[lot.lot_id]
        for lot in lots
        if purse.remaining[lot.lot_id] != lot.remaining
    }
    cash_change = sum(purse.remaining[lot.lot_id] - lot.remaining for lot in lots if lot.is_cash)
    return AccountSettled(settled, remaining, cash_change, purse.debt)


@dataclass(slots=True)
class _Paid:
    """What is left of an allocation after what later ones undid."""

    lot_id: UUID | None
    from_second: int
    to_second: int
    amount: int
    paid_at: datetime


@dataclass(slots=True)
class _Booking:
    """What one hour's entry will say. `owing`: net micro-yuan of each ledger account to revenue."""

    now: datetime
    ended_until: datetime
    owing: dict[str, int] = field(default_factory=dict)
    repayments: list[Transfer] = field(default_factory=list)
    allocations: list[tuple[str, Allocation]] = field(default_factory=list)
    compensations: dict[UUID, Lot] = field(default_factory=dict)

    def pay(self, account: str, amount: int) -> None:
        self.owing[account] = self.owing.get(account, 0) + amount

    def transfers(self) -> list[Transfer]:
        moves = [
            Transfer(account, chart.REVENUE, amount)
            if amount > 0
            else Transfer(chart.REVENUE, account, -amount)
            for account, amount in self.owing.items()
            if amount != 0
        ]
        return moves + self.repayments


class _Purse:
    """The lots of an account while its hours are settled."""

    def __init__(self, lots: Sequence[Lot], debt: int) -> None:
        self.debt = debt
        self.lots = {lot.lot_id: lot for lot in lots}
        self.remaining = {lot.lot_id: lot.remaining for lot in lots}
        self._burnable = [
            (lot.lot_id, lot.is_cash, lot.first_second, lot.end_second)
            for lot in sorted(lots, key=Lot.burn_order)
            if not lot.swept
        ]
        self._cash_newest_first = sorted(
            (lot for lot in lots if lot.is_cash),
            key=lambda lot: (lot.effective_at, lot.lot_id),
            reverse=True,
        )

    @property
    def cuts(self) -> Iterable[Lot]:
        return self.lots.values()

    def burn(self, first_second: int, end_second: int, amount: int) -> list[tuple[UUID | None, int]]:
        """Who pays for seconds since 1970, in burn order; the rest becomes debt under None (R13)."""
        parts: list[tuple[UUID | None, int]] = []
        for lot_id, is_cash, lot_first, lot_end in self._burnable:
            left = self.remaining[lot_id]
            if left == 0 or not (is_cash or (lot_first <= first_second and end_second <= lot_end)):
                continue
            paid = min(left, amount)
            self.remaining[lot_id] = left - paid
            parts.append((lot_id, paid))
            amount -= paid
            if amount == 0:
                return parts
        self.debt += amount
        return [*parts, (None, amount)]

    def return_cash(self, amount: int, first_to: UUID | None) -> list[tuple[UUID, int]]:
        """Fill cash lots up to what they were granted: the one that paid, then the newest.

        There is always room: all that was taken from cash lots is what may come back.
        """
        parts: list[tuple[UUID, int]] = []
        preferred = [self.lots[first_to]] if first_to is not None else []
        for lot in [*preferred, *self._cash_newest_first]:
            back = min(amount, lot.granted - self.remaining[lot.lot_id])
            if back > 0:
                self.remaining[lot.lot_id] += back
                parts.append((lot.lot_id, back))
                amount -= back
        if amount:
            raise AssertionError(f"{amount} micro-yuan came back that no cash lot had paid")
        return parts

    def repay(self) -> list[tuple[UUID, int]]:
        """Cash pays debt first (R13), also cash that has just come back."""
        parts: list[tuple[UUID, int]] = []
        for lot_id, is_cash, _, _ in self._burnable:
            paid = min(self.debt, self.remaining[lot_id]) if is_cash else 0
            if paid > 0:
                self.remaining[lot_id] -= paid
                self.debt -= paid
                parts.append((lot_id, paid))
        return parts


def _settle_hour(
    account_id: str, purse: _Purse, hour: HourToSettle, booking: _Booking, new_lot_id: Callable[[], UUID]
) -> HourSettled:
    receivable = chart.receivable(account_id)
    cuts = cuts_of(hour.hour, purse.cuts)
    pieces = list(pairwise(cuts))
    changes = [_changes(charge, cuts) for charge in hour.charges]
    # Too much comes back first, so that what is missing elsewhere in the hour can be paid from it.
    for charge, change in zip(hour.charges, changes, strict=True):
        if min(change) < 0:
            _give_back(charge, pieces, change, purse, booking, receivable, new_lot_id)
    if purse.debt and booking.owing:
        booking.repayments = [
            Transfer(chart.lot(lot_id), receivable, amount) for lot_id, amount in purse.repay()
        ]
    next_seq = {charge.resource_id: charge.paid[-1].seq + 1 if charge.paid else 0 for charge in hour.charges}
    for resource_id, allocation in booking.allocations:
        next_seq[resource_id] = allocation.seq + 1
    for index, (start, end) in enumerate(pieces):
        for charge, change in zip(hour.charges, changes, strict=True):
            if change[index] <= 0:
                continue
            for lot_id, amount in purse.burn(hour.hour + start, hour.hour + end, change[index]):
                booking.pay(receivable if lot_id is None else chart.lot(lot_id), amount)
                seq = next_seq[charge.resource_id]
                next_seq[charge.resource_id] = seq + 1
                booking.allocations.append(
                    (charge.resource_id, Allocation(seq, lot_id, start, end, amount, booking.now))
                )
    return HourSettled(
        hour.hour, booking.transfers(), booking.allocations, list(booking.compensations.values())
    )


def _changes(charge: ChargeToSettle, cuts: Sequence[int]) -> list[int]:
    """What each piece owes more (or less) than was settled."""
    inner = cuts[1:-1]
    if not inner:
        return [charge.amount - charge.settled]
    now = pairwise(_due_at(inner, charge.lines, charge.amount))
    before = pairwise(_due_at(inner, charge.settled_lines, charge.settled))
    return [
        (due_until - due) - (was_until - was)
        for (due, due_until), (was, was_until) in zip(now, before, strict=True)
    ]


def _due_at(inner: Sequence[int], lines: Sequence[ChargeLine], amount: int) -> list[int]:
    """What is due before each cut, from 0 up to the amount: lines that say otherwise cannot break a bill."""
    due = [0]
    for cut in inner:
        due.append(min(amount, max(due[-1], due_before(lines, cut))))
    return [*due, amount]


def _give_back(
    charge: ChargeToSettle,
    pieces: Sequence[tuple[int, int]],
    change: Sequence[int],
    purse: _Purse,
    booking: _Booking,
    receivable: str,
    new_lot_id: Callable[[], UUID],
) -> None:
    """R14, for one charge: undo its newest allocations that overlap each piece owing less than before."""
    paid = _standing_allocations(charge.paid)
    seq = charge.paid[-1].seq + 1 if charge.paid else 0
    for (start, end), amount in zip(pieces, change, strict=True):
        left = max(0, -amount)
        overlapping = [part for part in paid if part.from_second < end and start < part.to_second]
        others = [part for part in paid if part not in overlapping]
        for part in [*reversed(overlapping), *reversed(others)]:
            back = min(left, part.amount)
            if back == 0:
                continue
            part.amount -= back
            left -= back
            booking.allocations.append(
                (
                    charge.resource_id,
                    Allocation(seq, part.lot_id, part.from_second, part.to_second, -back, booking.now),
                )
            )
            seq += 1
            _refund(part, back, purse, booking, receivable, new_lot_id)
        if left:
            raise AssertionError(f"{charge.resource_id}: {left} micro-yuan to give back that nobody paid")


def _standing_allocations(paid: Sequence[Allocation]) -> list[_Paid]:
    """What still stands of a charge's allocations, oldest first."""
    parts: list[_Paid] = []
    for allocation in paid:
        if allocation.amount > 0:
            parts.append(
                _Paid(
                    allocation.lot_id,
                    allocation.from_second,
                    allocation.to_second,
                    allocation.amount,
                    allocation.paid_at,
                )
            )
            continue
        undone = -allocation.amount
        for part in reversed(parts):
            if (part.lot_id, part.from_second, part.to_second) == (
                allocation.lot_id,
                allocation.from_second,
                allocation.to_second,
            ):
                taken = min(undone, part.amount)
                part.amount -= taken
                undone -= taken
    return [part for part in parts if part.amount > 0]


def _refund(
    part: _Paid,
    amount: int,
    purse: _Purse,
    booking: _Booking,
    receivable: str,
    new_lot_id: Callable[[], UUID],
) -> None:
    """Where money that comes back goes: the debt still owed, the lot that paid, or a lot in its place."""
    if part.lot_id is None:
        forgiven = min(amount, purse.debt)
        purse.debt -= forgiven
        if forgiven:
            booking.pay(receivable, -forgiven)
        # The rest of this debt has been repaid since, with cash.
        for lot_id, back in purse.return_cash(amount - forgiven, None):
            booking.pay(chart.lot(lot_id), -back)
        return
    lot = purse.lots[part.lot_id]
    if lot.is_cash:
        for lot_id, back in purse.return_cash(amount, lot.lot_id):
            booking.pay(chart.lot(lot_id), -back)
    elif _is_gone(lot, part.paid_at, booking):
        _compensate(lot, amount, booking, new_lot_id)
    else:
        purse.remaining[lot.lot_id] += amount
        booking.pay(chart.lot(lot.lot_id), -amount)


def _is_gone(lot: Lot, paid_at: datetime, booking: _Booking) -> bool:
    """Ended since it paid, or past its grace: there what comes back would go to breakage (R14, R15).

    One that had ended when it paid (a late settlement of its seconds) and is in its grace is not.
    """
    ended_since = lot.expires_at is not None and paid_at < lot.expires_at <= booking.now
    return lot.swept or ended_since or lot.is_past_grace(booking.ended_until)


def _compensate(lot: Lot, amount: int, booking: _Booking, new_lot_id: Callable[[], UUID]) -> None:
    standing_in = booking.compensations.get(lot.lot_id)
    booking.compensations[lot.lot_id] = new = Lot(
        lot_id=standing_in.lot_id if standing_in else new_lot_id(),
        kind="compensation",
        priority=PRIORITY_OF_KIND["compensation"],
        granted=amount + (standing_in.granted if standing_in else 0),
        remaining=amount + (standing_in.remaining if standing_in else 0),
        effective_at=booking.now,
        expires_at=booking.now + timedelta(days=COMPENSATION_DAYS),
        created_at=booking.now,
    )
    booking.pay(chart.lot(new.lot_id), -amount)

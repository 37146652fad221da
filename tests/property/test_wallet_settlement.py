"""Laws of settlement: whatever revisions come, in whatever slices they are settled."""

from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import count
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from services.wallet.domain import chart
from services.wallet.domain.lots import Lot, LotKind
from services.wallet.domain.settlement import (
    Allocation,
    ChargeToSettle,
    HourToSettle,
    due_before,
    settle_account,
)
from shared.contracts.facts import ChargeLine
from tests.support.wallet import NOON, NOON_EPOCH, line, make_lot

HOURS = 3
RESOURCES = ("i", "j")
KINDS: tuple[LotKind, ...] = ("trial", "promo", "compensation", "cash")

Key = tuple[int, str]


@dataclass
class Book:
    """A wallet in memory, moved only by what settlement says."""

    lots: dict[UUID, Lot]
    debt: int = 0
    lines: dict[Key, list[ChargeLine]] = field(default_factory=dict)
    settled_lines: dict[Key, list[ChargeLine]] = field(default_factory=dict)
    paid: dict[Key, list[Allocation]] = field(default_factory=lambda: defaultdict(list))
    ledger: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    ids: "count[int]" = field(default_factory=lambda: count(1_000))

    def settle(self, hours: list[int], now: datetime) -> None:
        """Settle what has changed in these hours."""
        to_settle = []
        for hour in sorted(hours):
            charges = [
                ChargeToSettle(
                    resource_id,
                    amount_of(self.lines[hour, resource_id]),
                    amount_of(self.settled_lines.get((hour, resource_id), [])),
                    self.lines[hour, resource_id],
                    self.settled_lines.get((hour, resource_id), []),
                    tuple(self.paid[hour, resource_id]),
                )
                for resource_id in RESOURCES
                if (hour, resource_id) in self.lines
            ]
            to_settle.append(HourToSettle(NOON_EPOCH + 3600 * hour, charges))
        result = settle_account(
            "a",
            list(self.lots.values()),
            self.debt,
            to_settle,
            now=now,
            ended_until=now - timedelta(hours=1),
            new_lot_id=lambda: UUID(int=next(self.ids)),
        )
        cash_before = self.cash
        for lot_id, remaining in result.remaining.items():
            self.lots[lot_id] = replace(self.lots[lot_id], remaining=remaining)
        assert self.cash - cash_before == result.cash_change
        self.debt = result.debt
        for settled, hour in zip(result.hours, sorted(hours), strict=True):
            for lot in settled.compensations:
                self.lots[lot.lot_id] = lot
            for resource_id, allocation in settled.allocations:
                self.paid[hour, resource_id].append(allocation)
            for transfer in settled.transfers:
                assert transfer.amount_micro > 0
                assert transfer.debit != transfer.credit
                self.ledger[transfer.debit] -= transfer.amount_micro
                self.ledger[transfer.credit] += transfer.amount_micro
            for resource_id in RESOURCES:
                if (hour, resource_id) in self.lines:
                    self.settled_lines[hour, resource_id] = self.lines[hour, resource_id]

    @property
    def cash(self) -> int:
        return sum(lot.remaining for lot in self.lots.values() if lot.is_cash)

    def check(self, granted: int) -> None:
        for lot in self.lots.values():
            assert 0 <= lot.remaining <= lot.granted
        assert self.cash == 0 or self.debt == 0
        charged = sum(amount_of(lines) for lines in self.settled_lines.values())
        assert self.ledger[chart.REVENUE] == charged
        assert -self.ledger[chart.receivable("a")] == self.debt
        left = sum(lot.remaining for lot in self.lots.values())
        assert granted - left == charged - self.debt
        for key, lines in self.settled_lines.items():
            paid = self.paid[key]
            assert [allocation.seq for allocation in paid] == list(range(len(paid)))
            assert sum(allocation.amount for allocation in paid) == amount_of(lines)

    def check_seconds(self) -> None:
        """R12: of each charge, no lot has paid for seconds outside its time."""
        for (hour, resource_id), paid in self.paid.items():
            net: dict[tuple[UUID | None, int, int], int] = defaultdict(int)
            for allocation in paid:
                net[allocation.lot_id, allocation.from_second, allocation.to_second] += allocation.amount
            by_piece: dict[tuple[int, int], int] = defaultdict(int)
            for (lot_id, start, end), amount in net.items():
                assert amount >= 0
                by_piece[start, end] += amount
                if amount == 0 or lot_id is None or self.lots[lot_id].is_cash:
                    continue
                lot = self.lots[lot_id]
                assert lot.first_second <= NOON_EPOCH + 3600 * hour + start
                assert NOON_EPOCH + 3600 * hour + end <= lot.end_second
            lines = self.settled_lines[hour, resource_id]
            for (start, end), amount in by_piece.items():
                assert amount == due_before(lines, end) - due_before(lines, start)


def amount_of(lines: list[ChargeLine]) -> int:
    return sum(part.amount for part in lines)


seconds = st.integers(0, 3600)
ranges = st.tuples(seconds, seconds).map(sorted).filter(lambda pair: pair[0] < pair[1])
charge_lines = st.lists(
    st.builds(
        lambda pair, price, quantity: line((pair[0], pair[1]), price=price, quantity=quantity),
        ranges,
        st.integers(0, 5_000),
        st.integers(1, 3),
    ),
    max_size=2,
)
instants = st.integers(-3600, HOURS * 3600 + 3600).map(lambda second: NOON + timedelta(seconds=second))


@st.composite
def lots(draw: st.DrawFn) -> dict[UUID, Lot]:
    found = {}
    for number in range(draw(st.integers(0, 5))):
        kind: LotKind = draw(st.sampled_from(KINDS))
        begins = draw(instants)
        ends = (
            None
            if kind == "cash"
            else draw(st.none() | st.just(begins + timedelta(seconds=draw(st.integers(1, 9000)))))
        )
        lot = make_lot(
            number, kind, granted=draw(st.integers(1, 8_000)), effective_at=begins, expires_at=ends
        )
        found[lot.lot_id] = lot
    return found


revisions = st.lists(
    st.tuples(st.integers(0, HOURS - 1), st.sampled_from(RESOURCES), charge_lines, st.booleans()),
    min_size=1,
    max_size=12,
)


@settings(max_examples=300, deadline=None)
@given(lots(), revisions, st.integers(0, 40))
def test_every_micro_yuan_is_where_the_rules_say(
    given_lots: dict[UUID, Lot], revs: list[tuple[int, str, list[ChargeLine], bool]], hours_later: int
) -> None:
    """After each settlement, of any revisions: lots in bounds, charges allocated, nothing lost or made."""
    book = Book(given_lots)
    granted = sum(lot.granted for lot in given_lots.values())
    now = NOON + timedelta(hours=HOURS)
    unsettled: set[int] = set()
    for hour, resource_id, lines, settle_now in revs:
        book.lines[hour, resource_id] = lines
        unsettled.add(hour)
        if settle_now:
            book.settle(sorted(unsettled), now)
            unsettled.clear()
            book.check(granted)
            now += timedelta(minutes=5 * hours_later)
    book.settle(sorted(unsettled), now)
    book.check(granted)
    book.check_seconds()


@settings(max_examples=200, deadline=None)
@given(lots(), revisions)
def test_settling_in_slices_charges_the_same_as_settling_once(
    given_lots: dict[UUID, Lot], revs: list[tuple[int, str, list[ChargeLine], bool]]
) -> None:
    sliced, whole = Book(dict(given_lots)), Book(dict(given_lots))
    now = NOON + timedelta(hours=HOURS)
    for hour, resource_id, lines, _ in revs:
        sliced.lines[hour, resource_id] = whole.lines[hour, resource_id] = lines
        sliced.settle([hour], now)
    whole.settle(list(range(HOURS)), now)
    for key, lines in whole.settled_lines.items():
        assert sum(part.amount for part in sliced.paid[key]) == amount_of(lines)
        assert sum(part.amount for part in whole.paid[key]) == amount_of(lines)
    assert sliced.ledger[chart.REVENUE] == whole.ledger[chart.REVENUE]


@settings(max_examples=100, deadline=None)
@given(lots(), revisions)
def test_settling_again_what_is_settled_changes_nothing(
    given_lots: dict[UUID, Lot], revs: list[tuple[int, str, list[ChargeLine], bool]]
) -> None:
    book = Book(given_lots)
    now = NOON + timedelta(hours=HOURS)
    for hour, resource_id, lines, _ in revs:
        book.lines[hour, resource_id] = lines
    book.settle(list(range(HOURS)), now)
    before = (dict(book.lots), book.debt, {key: list(paid) for key, paid in book.paid.items()})
    book.settle(list(range(HOURS)), now + timedelta(days=400))
    assert before == (book.lots, book.debt, {key: list(paid) for key, paid in book.paid.items()})


@given(st.permutations([make_lot(n, "promo", granted=100 * n) for n in range(1, 6)]), st.integers(1, 2_000))
def test_the_order_in_which_lots_are_read_does_not_matter(read: list[Lot], amount: int) -> None:
    def settled(order: list[Lot]) -> dict[UUID, int]:
        hours = [HourToSettle(NOON_EPOCH, [ChargeToSettle("i", amount)])]
        result = settle_account(
            "a", order, 0, hours, now=NOON, ended_until=NOON, new_lot_id=lambda: UUID(int=99)
        )
        return result.remaining

    assert settled(read) == settled(sorted(read, key=lambda lot: lot.lot_id))

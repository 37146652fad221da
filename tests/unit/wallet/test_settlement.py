"""R12, R13, R14 on the pure function: who pays which seconds, and who gets them back."""

from datetime import timedelta
from uuid import UUID

from services.wallet.domain import chart
from services.wallet.domain.chart import Transfer
from services.wallet.domain.lots import Lot
from services.wallet.domain.settlement import (
    AccountSettled,
    Allocation,
    ChargeToSettle,
    HourToSettle,
    cuts_of,
    due_before,
    settle_account,
)
from tests.support.wallet import A100, NOON, NOON_EPOCH, line, make_lot, with_factor

AFTER = NOON + timedelta(hours=2)
ENDED_UNTIL = AFTER - timedelta(hours=1)
RECEIVABLE = chart.receivable("a")
PROMO, CASH, OLD_CASH = UUID(int=1), UUID(int=2), UUID(int=3)
NEW = UUID(int=99)


def settle(lots: list[Lot], *charges: ChargeToSettle, debt: int = 0) -> AccountSettled:
    hours = [HourToSettle(NOON_EPOCH, charges)]
    return settle_account("a", lots, debt, hours, now=AFTER, ended_until=ENDED_UNTIL, new_lot_id=lambda: NEW)


def paid_by(settled: AccountSettled) -> list[tuple[str, UUID | None, int, int, int]]:
    return [
        (resource_id, part.lot_id, part.from_second, part.to_second, part.amount)
        for hour in settled.hours
        for resource_id, part in hour.allocations
    ]


def allocations(settled: AccountSettled) -> list[Allocation]:
    return [part for hour in settled.hours for _, part in hour.allocations]


def test_a_voucher_that_ends_in_the_hour_pays_the_seconds_before_its_end_and_cash_the_rest() -> None:
    voucher = make_lot(
        1,
        "promo",
        granted=50_000_000,
        remaining=46_700_000,
        expires_at=NOON + timedelta(minutes=17, seconds=30),
    )
    cash = make_lot(2, "cash", granted=10_000_000)
    lines = [line((0, 3600), price=A100, quantity=2)]
    settled = settle([cash, voucher], ChargeToSettle("i", 6_600_000, 0, lines))
    assert settled.remaining == {PROMO: 44_775_000, CASH: 5_325_000}
    assert settled.hours[0].transfers == [
        Transfer(chart.lot(PROMO), chart.REVENUE, 1_925_000),
        Transfer(chart.lot(CASH), chart.REVENUE, 4_675_000),
    ]
    assert paid_by(settled) == [
        ("i", PROMO, 0, 1050, 1_925_000),
        ("i", CASH, 1050, 3600, 4_675_000),
    ]


def test_a_voucher_that_begins_in_the_hour_pays_nothing_before() -> None:
    voucher = make_lot(1, "promo", effective_at=NOON + timedelta(seconds=3000))
    cash = make_lot(2, "cash")
    settled = settle([voucher, cash], ChargeToSettle("i", 3600, 0, [line((0, 3600), price=3600)]))
    assert paid_by(settled) == [("i", CASH, 0, 3000, 3000), ("i", PROMO, 3000, 3600, 600)]


def test_the_pieces_of_a_cut_hour_add_up_by_the_floor_of_the_whole() -> None:
    lines = [with_factor(line((0, 700), (900, 3600)), "night_auction", "0.50"), line((700, 900), price=1)]
    whole = sum(part.amount for part in lines)
    assert due_before(lines, 0) == 0
    assert due_before(lines, 3600) == whole
    pieces = [due_before(lines, cut) for cut in range(3601)]
    assert pieces == sorted(pieces)


def test_cuts_come_from_promotional_lots_only_and_only_inside_the_hour() -> None:
    lots = [
        make_lot(1, "promo", expires_at=NOON + timedelta(seconds=100)),
        make_lot(2, "promo", effective_at=NOON - timedelta(hours=5), expires_at=NOON + timedelta(hours=9)),
        make_lot(3, "cash", effective_at=NOON + timedelta(seconds=50)),
    ]
    assert cuts_of(NOON_EPOCH, lots) == [0, 100, 3600]


def test_an_empty_lot_still_cuts_so_that_later_revisions_find_the_same_pieces() -> None:
    assert cuts_of(
        NOON_EPOCH, [make_lot(1, "promo", remaining=0, expires_at=NOON + timedelta(seconds=9))]
    ) == [
        0,
        9,
        3600,
    ]


def test_what_no_lot_can_pay_is_owed_and_no_lot_goes_below_zero() -> None:
    cash = make_lot(2, "cash", granted=1_000_000)
    settled = settle([cash], ChargeToSettle("i", 1_660_000))
    assert settled.remaining == {CASH: 0}
    assert settled.debt == 660_000
    assert settled.hours[0].transfers[1] == Transfer(RECEIVABLE, chart.REVENUE, 660_000)


def test_promotional_credit_pays_no_debt_of_seconds_outside_its_time() -> None:
    voucher = make_lot(1, "promo", effective_at=NOON + timedelta(hours=1))
    settled = settle([voucher], ChargeToSettle("i", 500), debt=100)
    assert settled.remaining == {}
    assert settled.debt == 600


def test_several_charges_of_an_hour_make_one_entry_with_one_transfer_per_lot() -> None:
    cash = make_lot(2, "cash", granted=10_000)
    settled = settle([cash], ChargeToSettle("i", 3_000), ChargeToSettle("j", 4_000))
    assert settled.hours[0].transfers == [Transfer(chart.lot(CASH), chart.REVENUE, 7_000)]
    assert settled.cash_change == -7_000


def test_hours_settled_together_burn_in_order_of_time() -> None:
    voucher = make_lot(1, "promo", granted=1_000, expires_at=NOON + timedelta(days=1))
    cash = make_lot(2, "cash", granted=1_000)
    hours = [HourToSettle(NOON_EPOCH + 3600 * n, [ChargeToSettle("i", 700)]) for n in range(3)]
    settled = settle_account(
        "a", [voucher, cash], 0, hours, now=AFTER, ended_until=ENDED_UNTIL, new_lot_id=lambda: NEW
    )
    assert [(lot_id, amount) for _, lot_id, _, _, amount in paid_by(settled)] == [
        (PROMO, 700),
        (PROMO, 300),
        (CASH, 400),
        (CASH, 600),
        (None, 100),
    ]


def _paid_from(*parts: tuple[UUID | None, int]) -> list[Allocation]:
    return [
        Allocation(seq, lot_id, 0, 3600, amount, NOON + timedelta(hours=1, minutes=5))
        for seq, (lot_id, amount) in enumerate(parts)
    ]


def test_a_lower_revision_gives_back_last_burned_first() -> None:
    voucher = make_lot(1, "promo", granted=1_000, remaining=0)
    cash = make_lot(2, "cash", granted=1_000, remaining=500)
    charge = ChargeToSettle("i", 700, 1_500, paid=_paid_from((PROMO, 1_000), (CASH, 500)))
    settled = settle([voucher, cash], charge)
    assert settled.remaining == {CASH: 1_000, PROMO: 300}
    assert settled.cash_change == 500
    assert settled.hours[0].transfers == [
        Transfer(chart.REVENUE, chart.lot(CASH), 500),
        Transfer(chart.REVENUE, chart.lot(PROMO), 300),
    ]
    assert [part.seq for part in allocations(settled)] == [2, 3]


def test_seconds_that_fall_away_go_back_to_who_paid_those_seconds() -> None:
    voucher = make_lot(
        1,
        "promo",
        granted=1_000,
        remaining=0,
        expires_at=NOON + timedelta(seconds=1000),
        created_at=AFTER,
    )
    cash = make_lot(2, "cash", granted=2_600, remaining=0)
    paid_at = NOON + timedelta(hours=1, minutes=5)
    charge = ChargeToSettle(
        "i",
        2_600,
        3_600,
        lines=[line((1000, 3600), price=3600)],
        settled_lines=[line((0, 3600), price=3600)],
        paid=[Allocation(0, PROMO, 0, 1000, 1_000, paid_at), Allocation(1, CASH, 1000, 3600, 2_600, paid_at)],
    )
    assert settle([voucher, cash], charge).remaining == {PROMO: 1_000}


def test_a_lot_that_ended_since_it_paid_is_stood_in_for_by_a_compensation_lot_of_30_days() -> None:
    ended = make_lot(
        1, "promo", granted=1_000, remaining=400, expires_at=NOON + timedelta(hours=1, minutes=30)
    )
    charge = ChargeToSettle("i", 100, 600, paid=_paid_from((PROMO, 600)))
    settled = settle([ended], charge)
    assert settled.remaining == {}
    (compensation,) = settled.hours[0].compensations
    assert (compensation.kind, compensation.priority, compensation.remaining) == ("compensation", 20, 500)
    assert (compensation.effective_at, compensation.expires_at) == (AFTER, AFTER + timedelta(days=30))
    assert settled.hours[0].transfers == [Transfer(chart.REVENUE, chart.lot(NEW), 500)]


def test_a_lot_whose_rest_went_to_breakage_is_stood_in_for_too() -> None:
    swept = make_lot(
        1, "promo", granted=1_000, remaining=0, expires_at=NOON + timedelta(minutes=1), swept=True
    )
    settled = settle([swept], ChargeToSettle("i", 0, 600, paid=_paid_from((PROMO, 600))))
    assert [lot.granted for lot in settled.hours[0].compensations] == [600]


def test_a_lot_that_had_ended_when_it_paid_and_is_in_its_grace_gets_its_own_back() -> None:
    late = make_lot(
        1,
        "promo",
        granted=1_000,
        remaining=400,
        expires_at=NOON + timedelta(minutes=30),
        created_at=ENDED_UNTIL + timedelta(microseconds=1),
    )
    charge = ChargeToSettle("i", 100, 600, paid=_paid_from((PROMO, 600)))
    assert settle([late], charge).remaining == {PROMO: 900}


def test_a_lot_past_its_grace_is_stood_in_for_also_when_nothing_was_left_to_sweep() -> None:
    burned = make_lot(
        1,
        "promo",
        granted=600,
        remaining=0,
        expires_at=NOON + timedelta(minutes=30),
        created_at=ENDED_UNTIL,
    )
    settled = settle([burned], ChargeToSettle("i", 100, 600, paid=_paid_from((PROMO, 600))))
    assert settled.remaining == {}
    assert [lot.granted for lot in settled.hours[0].compensations] == [500]


def test_what_was_owed_and_still_is_reduces_the_debt() -> None:
    settled = settle([], ChargeToSettle("i", 300, 1_000, paid=_paid_from((None, 1_000))), debt=1_000)
    assert settled.debt == 300
    assert settled.hours[0].transfers == [Transfer(chart.REVENUE, RECEIVABLE, 700)]


def test_what_was_owed_and_has_been_repaid_since_comes_back_as_cash() -> None:
    older = make_lot(3, "cash", granted=1_000, remaining=0, effective_at=NOON)
    newest = make_lot(2, "cash", granted=600, remaining=600, effective_at=NOON + timedelta(minutes=1))
    settled = settle([older, newest], ChargeToSettle("i", 300, 1_000, paid=_paid_from((None, 1_000))))
    assert settled.remaining == {OLD_CASH: 700}
    assert settled.cash_change == 700


def test_cash_that_comes_back_pays_the_debt_that_is_still_owed() -> None:
    cash = make_lot(2, "cash", granted=1_000, remaining=0)
    settled = settle([cash], ChargeToSettle("i", 400, 1_000, paid=_paid_from((CASH, 1_000))), debt=250)
    assert settled.debt == 0
    assert settled.remaining == {CASH: 350}
    assert settled.hours[0].transfers == [
        Transfer(chart.REVENUE, chart.lot(CASH), 600),
        Transfer(chart.lot(CASH), RECEIVABLE, 250),
    ]


def test_an_undone_allocation_is_not_undone_again() -> None:
    lot = make_lot(1, "promo", granted=1_000, remaining=400)
    cash = make_lot(2, "cash", granted=1_000, remaining=500)
    paid = _paid_from((PROMO, 600), (CASH, 900))
    paid.append(Allocation(2, CASH, 0, 3600, -400, NOON))
    settled = settle([lot, cash], ChargeToSettle("i", 0, 1_100, paid=paid))
    assert settled.remaining == {CASH: 1_000, PROMO: 1_000}


def test_what_comes_back_in_an_hour_pays_what_is_missing_in_it() -> None:
    cash = make_lot(2, "cash", granted=1_000, remaining=0)
    settled = settle(
        [cash], ChargeToSettle("i", 400, 1_000, paid=_paid_from((CASH, 1_000))), ChargeToSettle("j", 500)
    )
    assert settled.debt == 0
    assert settled.remaining == {CASH: 100}
    assert settled.hours[0].transfers == [Transfer(chart.REVENUE, chart.lot(CASH), 100)]


def test_lines_that_do_not_add_up_to_their_charge_cannot_charge_more_than_it() -> None:
    voucher = make_lot(1, "promo", expires_at=NOON + timedelta(seconds=1800))
    cash = make_lot(2, "cash")
    settled = settle([voucher, cash], ChargeToSettle("i", 1_000, 0, [line((0, 3600), price=3600)]))
    assert paid_by(settled) == [("i", PROMO, 0, 1800, 1_000)]
    settled = settle([voucher, cash], ChargeToSettle("i", 1_000, 0, []))
    assert paid_by(settled) == [("i", CASH, 1800, 3600, 1_000)]

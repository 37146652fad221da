"""A batch folds to one window per row (DESIGN 2)."""

from datetime import UTC, datetime

from services.metering.domain.folding import fold_reports, hours_touched
from services.metering.domain.state import state_of
from tests.support.metering import HOUR, SINCE, report


def test_reports_that_follow_one_another_become_one_range() -> None:
    windows = fold_reports([report(0, 10), report(10, 20), report(20, 30)])
    assert list(windows.values()) == [[(0, 30)]]


def test_reports_out_of_order_are_kept_as_they_come_and_left_for_the_database_to_merge() -> None:
    windows = fold_reports([report(20, 30), report(0, 10), report(5, 25)])
    assert list(windows.values()) == [[(20, 30), (0, 10), (5, 25)]]


def test_a_report_is_cut_at_the_hours_it_reaches_into() -> None:
    windows = fold_reports([report(3590, 2 * 3600 + 5)])
    assert [(key[2] - HOUR, ranges) for key, ranges in windows.items()] == [
        (0, [(3590, 3600)]),
        (3600, [(0, 3600)]),
        (7200, [(0, 5)]),
    ]


def test_a_report_that_ends_with_the_hour_does_not_reach_into_the_next() -> None:
    assert [key[2] for key in fold_reports([report(3000, 3600)])] == [HOUR]


def test_a_report_that_covers_no_whole_second_makes_no_window() -> None:
    assert fold_reports([report(7, 7)]) == {}


def test_every_part_of_the_state_and_its_since_make_a_row_of_their_own() -> None:
    reports = [
        report(),
        report(sku="rtx-3090"),
        report(quantity=1),
        report(mode="no_gpu"),
        report(purchase="night_auction"),
        report(labels={"project": "clip"}),
        report(since=1),
        report(resource_id="inst-2"),
        report(account_id="acct-8"),
    ]
    assert len(fold_reports(reports)) == len(reports)


def test_labels_in_any_order_are_one_state() -> None:
    first = report(0, 10, labels={"project": "clip", "job": "4711"})
    second = report(10, 20, labels={"job": "4711", "project": "clip"})
    assert len(fold_reports([first, second])) == 1


def test_one_instant_written_with_two_offsets_is_one_since() -> None:
    local = datetime.fromisoformat("2026-03-10T22:20:05+08:00")
    assert local == SINCE.astimezone(UTC)
    assert len(fold_reports([report(0, 10), report(10, 20, since=local)])) == 1


def test_an_hour_with_two_states_is_touched_once() -> None:
    windows = fold_reports([report(0, 10), report(10, 20, mode="no_gpu"), report(0, 5, resource_id="b")])
    assert hours_touched(windows) == [("acct-7", "inst-8f2c", HOUR), ("acct-7", "b", HOUR)]


def test_the_canonical_state_has_sorted_keys_and_no_spaces() -> None:
    state = state_of("rtx-4090", 8, "gpu", "on_demand", (("项目", 'a "b"'), ("job", "4711")))
    assert state.canonical == (
        '{"labels":{"job":"4711","项目":"a \\"b\\""},"mode":"gpu","purchase":"on_demand",'
        '"quantity":8,"sku":"rtx-4090"}'
    )


def test_the_digest_is_part_of_the_key_for_ever_so_its_value_is_held_here() -> None:
    assert state_of("rtx-4090", 8, "gpu", "on_demand", ()).digest == "7c9498dfd62015168276cdd88f9046ab"

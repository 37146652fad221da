"""Which state owns a second (R2)."""

from datetime import timedelta

from services.metering.domain.resolution import Claim, resolve_claims
from tests.support.metering import SINCE

LATER = SINCE + timedelta(microseconds=1)


def test_the_later_since_owns_what_both_claim() -> None:
    resolved = resolve_claims([Claim(SINCE, "a", [(0, 100)]), Claim(LATER, "b", [(40, 60)])])
    assert resolved.owned == {"a": [(0, 40), (60, 100)], "b": [(40, 60)]}
    assert resolved.conflict_seconds == 20


def test_of_equal_sinces_the_smaller_state_owns() -> None:
    resolved = resolve_claims([Claim(SINCE, "b", [(0, 60)]), Claim(SINCE, "a", [(30, 90)])])
    assert resolved.owned == {"a": [(30, 90)], "b": [(0, 30)]}


def test_states_compare_by_code_point_as_the_database_collates_them() -> None:
    resolved = resolve_claims([Claim(SINCE, "é", [(0, 60)]), Claim(SINCE, "z", [(0, 60)])])
    assert resolved.owned == {"z": [(0, 60)]}


def test_a_state_that_owns_nothing_has_no_segment() -> None:
    resolved = resolve_claims([Claim(SINCE, "a", [(10, 20)]), Claim(LATER, "b", [(0, 60)])])
    assert resolved.owned == {"b": [(0, 60)]}


def test_two_boots_in_one_state_are_one_segment_and_no_conflict() -> None:
    resolved = resolve_claims([Claim(SINCE, "a", [(0, 40)]), Claim(LATER, "a", [(30, 60)])])
    assert resolved.owned == {"a": [(0, 60)]}
    assert resolved.conflict_seconds == 0


def test_states_that_follow_one_another_are_no_conflict() -> None:
    resolved = resolve_claims([Claim(SINCE, "a", [(0, 40)]), Claim(LATER, "b", [(40, 60)])])
    assert resolved.owned == {"a": [(0, 40)], "b": [(40, 60)]}
    assert resolved.conflict_seconds == 0


def test_each_losing_claim_on_a_second_is_counted() -> None:
    claims = [Claim(SINCE, state, [(0, 10)]) for state in ("a", "b", "c")]
    assert resolve_claims(claims).conflict_seconds == 20

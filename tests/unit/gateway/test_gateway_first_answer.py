"""What becomes of a request whose Idempotency-Key is known."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from services.gateway.domain.accounts import account_id_for
from services.gateway.domain.answers import Answer
from services.gateway.domain.idempotency import Record, check_key, first_answer, hash_request, is_kept
from services.gateway.domain.refusals import IdempotencyInProgress, IdempotencyKeyReused
from shared.errors import Invalid

NOW = datetime(2026, 3, 10, 15, tzinfo=UTC)
LONG_AGO = NOW - timedelta(hours=24)
ANSWER = Answer(201, b"{}")
RUNNING = Record(b"hash", UUID(int=1), NOW, NOW + timedelta(seconds=60), None)
ANSWERED = replace(RUNNING, answer=ANSWER)


def test_the_same_request_gets_the_first_answer() -> None:
    assert first_answer(ANSWERED, b"hash", NOW, LONG_AGO) == ANSWER


@pytest.mark.parametrize("record", [RUNNING, ANSWERED])
def test_another_request_under_the_same_key_is_a_conflict(record: Record) -> None:
    with pytest.raises(IdempotencyKeyReused):
        first_answer(record, b"other", NOW, LONG_AGO)


def test_a_request_that_still_runs_is_waited_for() -> None:
    with pytest.raises(IdempotencyInProgress) as refused:
        first_answer(RUNNING, b"hash", NOW, LONG_AGO)
    assert refused.value.facts["retry_after"] == 1


def test_a_request_that_died_is_run_again_when_its_lease_is_over() -> None:
    assert first_answer(RUNNING, b"hash", NOW + timedelta(seconds=60), LONG_AGO) is None


def test_a_record_past_keeping_is_as_if_it_were_not_there() -> None:
    assert first_answer(ANSWERED, b"other", NOW, NOW + timedelta(seconds=1)) is None


def test_spacing_and_order_of_a_body_do_not_matter_but_its_content_and_target_do() -> None:
    hashed = hash_request("POST", "/v1/holds", b'{"a": 1, "b": {"c": 2, "d": 3}}')
    assert hashed == hash_request("POST", "/v1/holds", b'{"b":{"d":3,"c":2},"a":1}')
    assert hashed != hash_request("POST", "/v1/holds", b'{"a": 2, "b": {"c": 2, "d": 3}}')
    assert hashed != hash_request("POST", "/v1/quotes", b'{"a": 1, "b": {"c": 2, "d": 3}}')
    assert hashed != hash_request("DELETE", "/v1/holds", b'{"a": 1, "b": {"c": 2, "d": 3}}')


@pytest.mark.parametrize(
    ("status", "kept"), [(201, True), (402, True), (409, True), (429, False), (500, False), (503, False)]
)
def test_an_answer_that_another_try_may_change_is_not_kept(status: int, kept: bool) -> None:
    assert is_kept(Answer(status, b"")) is kept


@pytest.mark.parametrize("key", ["", "a b", "é", "x" * 256, "tab\t", "line\n"])
def test_a_key_is_printable_ascii_of_at_most_255(key: str) -> None:
    with pytest.raises(Invalid):
        check_key(key)


def test_an_account_opened_again_after_a_crash_has_the_same_id() -> None:
    caller, other = str(UUID(int=1)), str(UUID(int=2))
    ids = iter(UUID(int=n) for n in range(100, 110))
    first = account_id_for(caller, "key-1", lambda: next(ids))
    assert first == account_id_for(caller, "key-1", lambda: next(ids))
    assert first != account_id_for(caller, "key-2", lambda: next(ids))
    assert first != account_id_for(other, "key-1", lambda: next(ids))
    assert account_id_for(caller, None, lambda: next(ids)) != account_id_for(caller, None, lambda: next(ids))

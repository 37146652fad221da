"""Reports become committed seconds and facts, on a real PostgreSQL."""

import asyncio
import random
from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from services.metering.consumers import usage_reported_handler
from services.metering.domain.facts import MeteredHour, metered_hours
from services.metering.domain.folding import fold_reports, hours_touched
from services.metering.domain.state import state_of
from services.metering.storage import coverage
from services.metering.storage.coverage import add_coverage, read_hours
from services.metering.storage.tables import metadata
from services.metering.usecases.meter_reports import meter_reports
from services.metering.usecases.metered_message import encode_metered
from shared.contracts.facts import UsageMetered
from shared.contracts.usage import UsageReport
from shared.database import Database
from shared.kafka import Record
from shared.time import from_epoch
from tests.support.metering import HOUR, report, seconds_expected, seconds_told
from tests.support.reports import structured, usage_event

NOW = from_epoch(HOUR) + timedelta(hours=3)
Row = tuple[str, str, str, int]


async def rows_of(database: Database) -> list[Row]:
    async with database.reading() as connection:
        rows = await connection.execute(
            text(
                "SELECT resource_id, state, CAST(coverage AS text), revision FROM usage_window"
                " ORDER BY resource_id, hour, since, state"
            )
        )
        return [(row[0], row[1], row[2], row[3]) for row in rows]


def canonical_states(reports: Sequence[UsageReport]) -> list[str]:
    return [
        state_of(one.sku, one.quantity, one.mode, one.purchase, tuple(one.labels.items())).canonical
        for one in reports
    ]


def facts_of(hours: Sequence[MeteredHour]) -> list[UsageMetered]:
    return [msgspec.json.decode(encode_metered(hour), type=UsageMetered) for hour in hours]


def newest(facts: Sequence[UsageMetered]) -> list[UsageMetered]:
    """Of each resource-hour the fact with the greatest revision; fails when one revision says two things."""
    by_key: dict[tuple[str, str, str], dict[int, UsageMetered]] = {}
    for fact in facts:
        revisions = by_key.setdefault((fact.account_id, fact.resource_id, fact.hour), {})
        assert revisions.setdefault(fact.revision, fact) == fact
    return [revisions[max(revisions)] for revisions in by_key.values()]


def random_reports(seed: int, count: int) -> list[UsageReport]:
    chance = random.Random(seed)
    reports = []
    for _ in range(count):
        first_second = chance.randrange(3 * 3600)
        reports.append(
            report(
                first_second,
                first_second + chance.randrange(900),
                resource_id=f"inst-{chance.randrange(6)}",
                quantity=chance.choice([1, 2]),
                mode=chance.choice(["gpu", "no_gpu"]),
                labels=chance.choice([{}, {"project": "clip"}, {"项目": "裁剪"}]),
                since=chance.randrange(3),
            )
        )
    return reports


async def test_seconds_are_united_and_the_fact_of_the_hour_is_told(database: Database) -> None:
    await meter_reports(database, [report(0, 60), report(120, 180)])
    metered = await meter_reports(database, [report(60, 120)])
    assert [segment.ranges for segment in facts_of(metered.hours)[0].segments] == [[(0, 180)]]
    assert facts_of(metered.hours)[0].revision == 2
    assert (metered.windows, metered.windows_changed, metered.seconds) == (1, 1, 60)


async def test_the_same_batch_again_changes_no_row_and_tells_the_same_facts(database: Database) -> None:
    batch = random_reports(1, 80)
    first = await meter_reports(database, batch)
    rows = await rows_of(database)
    again = await meter_reports(database, random.Random(2).sample(batch, len(batch)))
    assert await rows_of(database) == rows
    assert again.windows_changed == 0
    assert sorted(again.hours) == sorted(first.hours)


async def test_a_batch_that_died_between_commit_and_publish_is_told_when_it_is_replayed(
    database: Database,
) -> None:
    batch = [report(0, 60), report(0, 60, resource_id="b")]
    async with database.transaction() as connection:
        await add_coverage(connection, fold_reports(batch))  # and here the worker dies
    replayed = await meter_reports(database, batch)
    assert replayed.windows_changed == 0
    assert [(fact.resource_id, fact.revision) for fact in facts_of(replayed.hours)] == [
        ("inst-8f2c", 1),
        ("b", 1),
    ]


async def test_a_batch_that_died_before_its_commit_left_nothing(database: Database) -> None:
    async def die_after_writing() -> None:
        async with database.transaction() as connection:
            await add_coverage(connection, fold_reports([report()]))
            raise ConnectionError("killed")

    with pytest.raises(ConnectionError):
        await die_after_writing()
    assert await rows_of(database) == []


async def test_a_report_that_covers_no_whole_second_is_accepted_and_touches_nothing(
    database: Database,
) -> None:
    metered = await meter_reports(database, [report(7, 7)])
    assert metered.hours == []
    assert await rows_of(database) == []


async def test_conflicting_states_are_resolved_in_the_fact_and_kept_in_the_rows(database: Database) -> None:
    await meter_reports(database, [report(0, 100, since=1)])
    metered = await meter_reports(database, [report(40, 60, mode="no_gpu", since=0)])
    assert {segment.mode: segment.ranges for segment in facts_of(metered.hours)[0].segments} == {
        "gpu": [(0, 40), (60, 100)],
        "no_gpu": [(40, 60)],
    }
    assert [conflict.seconds for conflict in metered.conflicts] == [20]
    assert [row[2] for row in await rows_of(database)] == ["{[0,100)}", "{[40,60)}"]


async def test_two_workers_that_interleave_never_tell_one_revision_with_two_contents(
    database: Database,
) -> None:
    """Why facts are read after the commit: inside the transactions both would tell the same lie."""
    await meter_reports(database, [report(0, 10), report(100, 110, mode="no_gpu", since=1)])
    ours, theirs = fold_reports([report(10, 20)]), fold_reports([report(110, 120, mode="no_gpu", since=1)])
    keys = hours_touched(ours)
    inside = []
    after = []
    async with database.transaction() as our_connection:
        await add_coverage(our_connection, ours)
        async with database.transaction() as their_connection:
            await add_coverage(their_connection, theirs)
            inside += metered_hours(keys, await read_hours(our_connection, keys))[0]
            inside += metered_hours(keys, await read_hours(their_connection, keys))[0]
        async with database.reading() as connection:
            after += metered_hours(keys, await read_hours(connection, keys))[0]
    async with database.reading() as connection:
        after += metered_hours(keys, await read_hours(connection, keys))[0]
    assert inside[0].revision == inside[1].revision
    assert inside[0] != inside[1]
    assert [fact.revision for fact in after] == [3, 4]
    assert {segment.mode: segment.ranges for segment in newest(facts_of(after))[0].segments} == {
        "gpu": [(0, 20)],
        "no_gpu": [(100, 120)],
    }


async def test_many_workers_at_once_end_with_the_truth_and_no_deadlock(database: Database) -> None:
    reports = random_reports(3, 600)
    batches = [reports[first : first + 30] for first in range(0, len(reports), 30)]
    shuffled = [random.Random(seed).sample(batch, len(batch)) for seed, batch in enumerate(batches * 2)]
    random.Random(4).shuffle(shuffled)
    facts: list[UsageMetered] = []

    async def work(worker: int) -> None:
        for batch in shuffled[worker::6]:
            facts.extend(facts_of((await meter_reports(database, batch)).hours))

    await asyncio.gather(*(work(worker) for worker in range(6)))
    assert seconds_told(newest(facts)) == seconds_expected(reports, canonical_states(reports))


async def test_a_batch_larger_than_a_statement_is_added_and_told_whole(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coverage, "ROWS_PER_STATEMENT_MAX", 7)
    monkeypatch.setattr("services.metering.usecases.meter_reports.ROWS_PER_STATEMENT_MAX", 7)
    reports = [report(0, 24 * 3600, resource_id=f"disk-{number}") for number in (3, 1, 2)]
    metered = await meter_reports(database, reports)
    assert (metered.windows, metered.windows_changed, len(metered.hours)) == (72, 72, 72)
    assert seconds_told(facts_of(metered.hours)) == seconds_expected(reports, canonical_states(reports))


async def test_labels_at_their_limit_fit_the_key_and_come_back(database: Database) -> None:
    labels = {f"键{'k' * 61}{n:02}": "值" * 64 for n in range(16)}
    metered = await meter_reports(database, [report(labels=labels)])
    assert facts_of(metered.hours)[0].segments[0].labels == labels


async def test_since_is_told_apart_to_the_microsecond(database: Database) -> None:
    metered = await meter_reports(database, [report(0, 10, since=1), report(5, 9, quantity=1, since=0)])
    assert {segment.quantity: segment.ranges for segment in facts_of(metered.hours)[0].segments} == {
        8: [(0, 5), (9, 10)],
        1: [(5, 9)],
    }


async def test_a_batch_of_records_becomes_messages_and_refusals(database: Database) -> None:
    start = from_epoch(HOUR)
    good = structured(usage_event(start=start, end=start + timedelta(minutes=1), resource_id="inst-1"))
    records = [
        Record("usage.reported.v1", 0, offset, 0, b"inst-1", value, [])
        for offset, value in enumerate([good, b"{", good])
    ]
    outcome = await usage_reported_handler(database, lambda: NOW, 45)(records)
    assert [(message.topic, message.key, message.partition_by) for message in outcome.messages] == [
        ("usage.metered.v1", b"acct-7|inst-1|2026-03-10T15:00:00Z", b"acct-7")
    ]
    assert outcome.messages[0].value == (
        b'{"account_id":"acct-7","resource_id":"inst-1","hour":"2026-03-10T15:00:00Z","revision":1,'
        b'"segments":[{"labels":{},"mode":"gpu","purchase":"on_demand","quantity":1,"sku":"rtx-4090",'
        b'"ranges":[[0,60]]}]}'
    )
    assert [(refusal.record.offset, refusal.code) for refusal in outcome.rejected] == [(1, "malformed_json")]


async def test_how_late_a_report_may_be_is_a_setting_and_counts_from_the_clock(database: Database) -> None:
    start = from_epoch(HOUR)
    value = structured(usage_event(start=start, end=start + timedelta(minutes=1)))
    record = Record("usage.reported.v1", 0, 0, 0, None, value, [])

    async def refusals_at(now: datetime) -> list[str]:
        outcome = await usage_reported_handler(database, lambda: now, 2)([record])
        return [refusal.code for refusal in outcome.rejected]

    assert await refusals_at(start + timedelta(days=2)) == []
    assert await refusals_at(start + timedelta(days=2, seconds=1)) == ["too_old"]
    assert await refusals_at(start - timedelta(minutes=4)) == []
    assert await refusals_at(start - timedelta(minutes=4, seconds=1)) == ["in_the_future"]


@pytest.mark.parametrize("statement", ["DELETE FROM usage_window", "TRUNCATE usage_window"])
async def test_the_service_itself_cannot_remove_coverage(database: Database, statement: str) -> None:
    async def remove() -> None:
        async with database.transaction() as connection:
            await connection.execute(text(statement))

    with pytest.raises(DBAPIError, match="permission denied"):
        await remove()


@pytest.mark.parametrize("coverage_text", ["{}", "{[-1,5)}", "{[3590,3601)}"])
async def test_the_database_refuses_coverage_outside_the_hour(database: Database, coverage_text: str) -> None:
    async def insert() -> None:
        async with database.transaction() as connection:
            await connection.execute(
                text(
                    "INSERT INTO usage_window SELECT 'a', 'r', to_timestamp(0), to_timestamp(0),"
                    " gen_random_uuid(), '{}', CAST(CAST(:coverage AS text) AS int4multirange), 1"
                ),
                {"coverage": coverage_text},
            )

    with pytest.raises(DBAPIError, match="usage_window_coverage_check"):
        await insert()


async def test_updates_stay_on_their_page_and_touch_no_index(
    database: Database, owner_database: Database
) -> None:
    resources = [f"inst-{number}" for number in range(500)]
    for step in range(4):
        await meter_reports(
            database, [report(step * 10, step * 10 + 10, resource_id=resource) for resource in resources]
        )
    async with owner_database.transaction() as connection:
        await connection.execute(text("SELECT pg_stat_force_next_flush()"))
    async with database.transaction() as connection:
        await connection.execute(text("SELECT pg_stat_force_next_flush()"))
    async with owner_database.reading() as connection:
        updates, hot_updates = (
            await connection.execute(
                text(
                    "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'usage_window'"
                )
            )
        ).one()
    assert hot_updates >= updates * 0.95


async def test_the_tables_in_code_are_the_tables_of_the_migrations(owner_database: Database) -> None:
    async with owner_database.reading() as connection:
        differences = await connection.run_sync(
            lambda sync: compare_metadata(
                MigrationContext.configure(sync, opts={"compare_type": True}), metadata
            )
        )
    assert differences == []

"""Facts of a period are told again on request: whole, once a page, whatever dies meanwhile."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import httpx
import msgspec
import pytest
from aiokafka.errors import KafkaConnectionError
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from services.metering.app import create_api
from services.metering.domain.facts import MeteredHour
from services.metering.usecases import republish_facts
from services.metering.usecases.meter_reports import meter_reports
from services.metering.usecases.metered_message import metered_message
from services.metering.usecases.republish_facts import RepublishFacts
from services.metering.usecases.request_republication import request_republication
from shared.contracts.facts import UsageMetered
from shared.contracts.usage import UsageReport
from shared.database import Database
from shared.kafka import Message
from shared.time import format_instant, from_epoch
from tests.support.clients import wait_for
from tests.support.clocks import SettableClock
from tests.support.metering import HOUR, report
from tests.support.publishers import RecordingPublisher

START = from_epoch(HOUR)
ONE_HOUR = timedelta(hours=1)


class DiesOnceTold(RecordingPublisher):
    async def publish(self, messages: Sequence[Message]) -> None:
        await super().publish(messages)
        raise KeyboardInterrupt


class MetersMeanwhile(RecordingPublisher):
    """While the first page is on its way, a consumer meters these and tells them before it arrives."""

    def __init__(self, database: Database, reports: list[UsageReport]) -> None:
        super().__init__()
        self._database = database
        self._reports = reports

    async def publish(self, messages: Sequence[Message]) -> None:
        reports, self._reports = self._reports, []
        metered = await meter_reports(self._database, reports)
        self.told.extend(metered_message(hour) for hour in metered.hours)
        await super().publish(messages)


@pytest.fixture
def clock() -> SettableClock:
    return SettableClock(START + timedelta(days=1))


@pytest.fixture
async def api(database: Database, clock: SettableClock) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_api(database, clock))
    async with httpx.AsyncClient(transport=transport, base_url="http://metering.test") as client:
        yield client


@pytest.fixture
def publisher() -> RecordingPublisher:
    return RecordingPublisher()


@pytest.fixture
def republish(database: Database, publisher: RecordingPublisher, clock: SettableClock) -> RepublishFacts:
    return RepublishFacts(database, publisher, clock, pause_seconds=0)


@pytest.fixture(autouse=True)
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(republish_facts, "STEPS_MAX", 3)


async def use_hours(database: Database, resources: int, hours: int) -> list[MeteredHour]:
    """Each of the resources for 90 minutes from each of the hours on, in two states."""
    reports = [
        report(
            3_600 * hour,
            3_600 * hour + 5_400,
            account_id=f"acct-{number % 2}",
            resource_id=f"inst-{number}",
            quantity=1 + hour % 2,
            since=hour,
        )
        for number in range(resources)
        for hour in range(hours)
    ]
    return sorted((await meter_reports(database, reports)).hours)


async def ask(
    database: Database, clock: SettableClock, reference: str = "r", hours: tuple[int, int | None] = (0, None)
) -> None:
    first, until = hours
    end = None if until is None else START + ONE_HOUR * until
    await request_republication(database, clock, reference, START + ONE_HOUR * first, end)


async def finish(republish: RepublishFacts) -> int:
    """Pages told until there is nothing left."""
    pages = 0
    while await republish.tell_page():
        pages += 1
    return pages


def within(hours: Sequence[MeteredHour], first: int, until: int) -> list[Message]:
    """In the order of the key, as they are told."""
    return [
        metered_message(hour) for hour in hours if HOUR + 3_600 * first <= hour.key[2] < HOUR + 3_600 * until
    ]


async def progress(api: httpx.AsyncClient) -> list[tuple[str, int, bool]]:
    items = (await api.get("/v1/republish")).json()["items"]
    return [(item["reference"], item["hours_told"], item["finished_at"] is not None) for item in items]


async def test_a_request_is_taken_once_per_reference(api: httpx.AsyncClient) -> None:
    body = {"reference": "price-book-2", "from": "2026-03-10T15:30:00Z", "to": "2026-03-10T18:00:01Z"}
    first = await api.post("/v1/republish", json=body)
    assert first.status_code == 201
    assert first.json() == {
        "reference": "price-book-2",
        "from": "2026-03-10T15:00:00Z",
        "to": "2026-03-10T19:00:00Z",
        "requested_at": "2026-03-11T15:00:00Z",
        "position": None,
        "hours_told": 0,
        "finished_at": None,
    }
    again = await api.post("/v1/republish", json=body | {"from": "2026-03-10T23:00:00+08:00"})
    assert (again.status_code, again.json()) == (200, first.json())
    for other in ({"from": "2026-03-10T14:59:59Z"}, {"to": None}):
        refused = await api.post("/v1/republish", json=body | other)
        assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert len((await api.get("/v1/republish")).json()["items"]) == 1


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"to": "2026-03-10T15:30:00Z"}, 422),
        ({"reference": ""}, 422),
        ({"from": "today"}, 422),
        ({"until": "2026-03-10T18:00:00Z"}, 422),
        ({"from": "0001-01-01T00:00:00Z"}, 201),
        ({"from": "0001-01-01T00:00:00Z", "to": "1969-12-31T23:59:59Z"}, 201),
        ({"to": "9999-12-31T23:59:59Z"}, 201),
    ],
)
async def test_a_request_without_a_period_is_refused_and_any_period_is_taken(
    api: httpx.AsyncClient, republish: RepublishFacts, changes: dict[str, str], status: int
) -> None:
    body = {"reference": "r", "from": "2026-03-10T15:30:00Z"} | changes
    assert (await api.post("/v1/republish", json=body)).status_code == status
    await finish(republish)
    assert await progress(api) == ([("r", 0, True)] if status == 201 else [])


async def test_the_same_request_many_times_at_once_is_one(
    database: Database, clock: SettableClock, api: httpx.AsyncClient
) -> None:
    await asyncio.gather(*(ask(database, clock) for _ in range(8)))
    assert await progress(api) == [("r", 0, False)]


async def test_every_fact_from_an_hour_on_is_told_again_page_by_page(
    database: Database,
    clock: SettableClock,
    republish: RepublishFacts,
    publisher: RecordingPublisher,
    api: httpx.AsyncClient,
) -> None:
    hours = await use_hours(database, resources=5, hours=4)
    await ask(database, clock, hours=(2, None))
    pages = await finish(republish)
    assert pages > 5
    assert publisher.told == within(hours, 2, 99)
    assert await progress(api) == [("r", 15, True)]
    assert not await republish.tell_page()


async def test_a_request_ends_before_the_hour_that_it_names(
    database: Database, clock: SettableClock, republish: RepublishFacts, publisher: RecordingPublisher
) -> None:
    hours = await use_hours(database, resources=4, hours=5)
    await ask(database, clock, hours=(1, 3))
    await finish(republish)
    assert publisher.told == within(hours, 1, 3)
    assert len(publisher.told) == 8


async def test_what_was_told_without_its_position_stored_is_told_again_and_nothing_is_left_out(
    database: Database,
    clock: SettableClock,
    republish: RepublishFacts,
    publisher: RecordingPublisher,
    api: httpx.AsyncClient,
) -> None:
    hours = await use_hours(database, resources=4, hours=3)
    await ask(database, clock)
    assert await republish.tell_page()
    first_page = list(publisher.told)
    dying = DiesOnceTold()
    with pytest.raises(KeyboardInterrupt):
        await RepublishFacts(database, dying, clock, pause_seconds=0).tell_page()
    assert await progress(api) == [("r", len(first_page), False)]
    await finish(republish)
    assert dying.told
    assert publisher.told == within(hours, 0, 99)
    assert publisher.told[len(first_page) :][: len(dying.told)] == dying.told
    assert await progress(api) == [("r", len(hours), True)]


async def test_two_workers_share_the_requests_and_tell_nothing_twice(
    database: Database, clock: SettableClock, publisher: RecordingPublisher, api: httpx.AsyncClient
) -> None:
    hours = await use_hours(database, resources=6, hours=3)
    await ask(database, clock, "first", hours=(0, 1))
    clock.now += timedelta(seconds=1)
    await ask(database, clock, "second", hours=(1, None))
    workers = [RepublishFacts(database, publisher, clock, pause_seconds=0) for _ in range(2)]
    stop = asyncio.Event()
    running = [asyncio.create_task(worker.run(stop)) for worker in workers]
    done = [("second", len(within(hours, 1, 99)), True), ("first", 6, True)]
    assert await wait_for(lambda: progress(api), lambda seen: seen == done) == done
    stop.set()
    await asyncio.gather(*running)
    assert publisher.told == within(hours, 0, 1) + within(hours, 1, 99)


async def test_a_lost_broker_is_waited_for(
    database: Database,
    clock: SettableClock,
    republish: RepublishFacts,
    publisher: RecordingPublisher,
    api: httpx.AsyncClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(republish_facts, "POLL_SECONDS", 0.01)
    hours = await use_hours(database, resources=2, hours=2)
    await ask(database, clock)
    publisher.fault = KafkaConnectionError()
    stop = asyncio.Event()
    running = asyncio.create_task(republish.run(stop))
    done, _ = await asyncio.wait({running}, timeout=0.2)
    assert not done
    assert await progress(api) == [("r", 0, False)]
    publisher.fault = None
    await wait_for(lambda: progress(api), lambda seen: seen[0][2])
    stop.set()
    await running
    assert publisher.told == within(hours, 0, 99)


async def test_the_fact_told_last_is_the_newest_also_where_the_hour_grew_meanwhile(
    database: Database, clock: SettableClock
) -> None:
    await meter_reports(database, [report(0, 60), report(0, 60, resource_id="other")])
    publisher = MetersMeanwhile(database, [report(60, 120)])
    await ask(database, clock)
    assert await RepublishFacts(database, publisher, clock, pause_seconds=0).tell_page()
    told = [msgspec.json.decode(message.value, type=UsageMetered) for message in publisher.told]
    assert [(fact.resource_id, fact.revision) for fact in told] == [
        ("inst-8f2c", 2),
        ("inst-8f2c", 1),
        ("other", 1),
        ("inst-8f2c", 2),
    ]


async def test_requests_are_listed_the_newest_first_with_how_far_they_are(
    database: Database, clock: SettableClock, republish: RepublishFacts, api: httpx.AsyncClient
) -> None:
    await use_hours(database, resources=4, hours=1)
    for number in range(5):
        clock.now += timedelta(microseconds=1)
        await ask(database, clock, f"r-{number}")
    await republish.tell_page()
    seen = []
    cursor: dict[str, str] = {}
    while True:
        page = (await api.get("/v1/republish", params={"limit": "2", **cursor})).json()
        seen += page["items"]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert [item["reference"] for item in seen] == ["r-4", "r-3", "r-2", "r-1", "r-0"]
    assert [item["hours_told"] for item in seen] == [0, 0, 0, 0, 3]
    assert seen[-1]["position"] == {
        "account_id": "acct-0",
        "resource_id": "inst-2",
        "hour": format_instant(START),
    }
    assert (await api.get("/v1/republish", params={"cursor": "nonsense"})).status_code == 422


@pytest.mark.parametrize("statement", ["DELETE FROM republish", "UPDATE republish SET first_hour = now()"])
async def test_the_service_itself_cannot_change_what_was_asked(database: Database, statement: str) -> None:
    async def change() -> None:
        async with database.transaction() as connection:
            await connection.execute(text(statement))

    with pytest.raises(DBAPIError, match="permission denied"):
        await change()

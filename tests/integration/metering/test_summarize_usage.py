"""The usage query counts every second once, exactly as the facts do."""

from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import httpx
import pytest

from services.metering.app import create_api
from services.metering.domain.state import state_of
from services.metering.usecases.meter_reports import meter_reports
from shared.contracts.usage import UsageReport
from shared.database import Database
from shared.time import from_epoch
from tests.integration.metering.test_meter_reports import random_reports
from tests.support.metering import HOUR, report, seconds_expected
from tests.support.reports import JsonObject

NOW = from_epoch(HOUR) + timedelta(hours=3)
PERIOD = {"from": "2026-03-10T00:00:00Z", "to": "2026-03-12T00:00:00Z"}


@pytest.fixture
async def client(database: Database) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_api(database, lambda: NOW))
    async with httpx.AsyncClient(transport=transport, base_url="http://metering") as client:
        yield client


async def items(client: httpx.AsyncClient, **query: str) -> list[JsonObject]:
    response = await client.get("/v1/accounts/acct-7/usage", params=query)
    assert response.status_code == 200, response.text
    found: list[JsonObject] = response.json()["items"]
    return found


async def test_an_account_without_usage_has_an_empty_list(client: httpx.AsyncClient) -> None:
    response = await client.get("/v1/accounts/nobody/usage")
    assert (response.status_code, response.json()) == (200, {"items": [], "next_cursor": None})


async def test_by_default_it_is_this_local_month_by_day_and_sku(
    database: Database, client: httpx.AsyncClient
) -> None:
    midnight = 3600  # of Asia/Shanghai, counted from HOUR
    await meter_reports(
        database, [report(midnight - 60, midnight + 30), report(0, 9, sku="disk-ssd", quantity=100)]
    )
    february = -10 * 86_400
    await meter_reports(database, [report(february, february + 60)])
    assert await items(client) == [
        {
            "start": "2026-03-09T16:00:00Z",
            "day": "2026-03-10",
            "sku": "disk-ssd",
            "seconds": 9,
            "card_seconds": 900,
        },
        {
            "start": "2026-03-09T16:00:00Z",
            "day": "2026-03-10",
            "sku": "rtx-4090",
            "seconds": 60,
            "card_seconds": 480,
        },
        {
            "start": "2026-03-10T16:00:00Z",
            "day": "2026-03-11",
            "sku": "rtx-4090",
            "seconds": 30,
            "card_seconds": 240,
        },
    ]


async def test_every_group_has_its_name_and_an_absent_label_is_null_and_last(
    database: Database, client: httpx.AsyncClient
) -> None:
    await meter_reports(
        database,
        [
            report(0, 10, labels={"project": "clip", "job": "1"}),
            report(10, 30, labels={"project": ""}, purchase="night_auction"),
            report(30, 60, mode="no_gpu"),
        ],
    )
    assert await items(client, group_by="label:project,mode,purchase,resource", **PERIOD) == [
        {
            "labels": {"project": ""},
            "mode": "gpu",
            "purchase": "night_auction",
            "resource": "inst-8f2c",
            "seconds": 20,
            "card_seconds": 160,
        },
        {
            "labels": {"project": "clip"},
            "mode": "gpu",
            "purchase": "on_demand",
            "resource": "inst-8f2c",
            "seconds": 10,
            "card_seconds": 80,
        },
        {
            "labels": {"project": None},
            "mode": "no_gpu",
            "purchase": "on_demand",
            "resource": "inst-8f2c",
            "seconds": 30,
            "card_seconds": 240,
        },
    ]


async def test_hours_and_months_are_local_and_half_hour_zones_cut_utc_hours(
    database: Database, client: httpx.AsyncClient
) -> None:
    await meter_reports(database, [report(1700, 1900)])
    assert await items(client, group_by="hour", time_zone="Asia/Kolkata", **PERIOD) == [
        {
            "start": "2026-03-10T14:30:00Z",
            "hour": "2026-03-10T20:00:00+05:30",
            "seconds": 100,
            "card_seconds": 800,
        },
        {
            "start": "2026-03-10T15:30:00Z",
            "hour": "2026-03-10T21:00:00+05:30",
            "seconds": 100,
            "card_seconds": 800,
        },
    ]
    assert await items(client, group_by="month", **PERIOD) == [
        {"start": "2026-02-28T16:00:00Z", "month": "2026-03", "seconds": 200, "card_seconds": 1600}
    ]


async def test_periods_are_cut_at_whole_seconds_and_tile(
    database: Database, client: httpx.AsyncClient
) -> None:
    await meter_reports(database, [report(0, 100)])
    cut = "2026-03-10T15:00:33.7+00:00"
    before = await items(client, **{"from": PERIOD["from"], "to": cut, "group_by": "sku"})
    behind = await items(client, **{"from": cut, "to": PERIOD["to"], "group_by": "sku"})
    assert (before[0]["seconds"], behind[0]["seconds"]) == (33, 67)


@pytest.mark.parametrize("seed", range(5))
async def test_the_sum_in_sql_is_the_resolution_of_the_facts(
    database: Database, client: httpx.AsyncClient, seed: int
) -> None:
    reports = random_reports(seed, 150)
    for first in range(0, len(reports), 40):
        await meter_reports(database, reports[first : first + 40])
    start, end = HOUR + 1_234, HOUR + 9_876
    found = await items(
        client,
        **{"from": from_epoch(start).isoformat(), "to": from_epoch(end).isoformat()},
        group_by="hour,resource,mode,label:project",
        limit="500",
    )
    told = {
        (item["start"], item["resource"], item["mode"], item["labels"]["project"]): (
            item["seconds"],
            item["card_seconds"],
        )
        for item in found
    }
    assert told == _expected(reports, start, end)


def _expected(
    reports: list[UsageReport], start: int, end: int
) -> dict[tuple[str, str, str, str | None], tuple[int, int]]:
    canonical = [
        state_of(one.sku, one.quantity, one.mode, one.purchase, tuple(one.labels.items())).canonical
        for one in reports
    ]
    seconds: Counter[tuple[str, str, str, str | None]] = Counter()
    card_seconds: Counter[tuple[str, str, str, str | None]] = Counter()
    for (_, resource_id), owners in seconds_expected(reports, canonical).items():
        for second, (_, quantity, mode, _, labels) in owners.items():
            if start <= second < end:
                hour = from_epoch(second - second % 3600).isoformat().replace("+00:00", "Z")
                project = dict(labels).get("project")  # type: ignore[call-overload]
                group = (hour, resource_id, str(mode), project)
                seconds[group] += 1
                card_seconds[group] += int(str(quantity))
    return {group: (count, card_seconds[group]) for group, count in seconds.items()}


async def test_pages_follow_one_another_and_keep_the_period_of_the_first(database: Database) -> None:
    await meter_reports(
        database,
        [
            report(
                number,
                number + 1,
                resource_id=f"inst-{number}",
                labels={"project": "p"} if number % 2 else {},
            )
            for number in range(7)
        ],
    )
    now = NOW

    def clock() -> datetime:
        return now

    transport = httpx.ASGITransport(create_api(database, clock))
    found: list[JsonObject] = []
    async with httpx.AsyncClient(transport=transport, base_url="http://metering") as client:
        query = {"group_by": "label:project,resource", "limit": "2"}
        while True:
            page = (await client.get("/v1/accounts/acct-7/usage", params=query)).json()
            found += page["items"]
            if page["next_cursor"] is None:
                break
            query["cursor"] = page["next_cursor"]
            now += timedelta(days=40)
    assert [(item["labels"]["project"], item["resource"]) for item in found] == [
        ("p", "inst-1"),
        ("p", "inst-3"),
        ("p", "inst-5"),
        (None, "inst-0"),
        (None, "inst-2"),
        (None, "inst-4"),
        (None, "inst-6"),
    ]


async def test_other_accounts_are_not_seen(database: Database, client: httpx.AsyncClient) -> None:
    await meter_reports(database, [report(account_id="acct-8")])
    assert await items(client, **PERIOD) == []


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"group_by": "week"}, "group_by knows hour, day, month"),
        ({"group_by": "hour,day"}, "one of hour, day and month"),
        ({"from": "2026-03-10"}, "RFC 3339"),
        ({"from": "2026-03-10T00:00:00"}, "RFC 3339"),
        ({"to": "now"}, "RFC 3339"),
        ({"from": "2026-03-10T00:00:00Z", "to": "2026-03-10T00:00:00Z"}, "before to"),
        ({"from": "2020-03-10T00:00:00Z", "to": "2026-03-10T00:00:00Z"}, "at most 400 days"),
        ({"from": "1900-01-01T00:00:00Z", "to": "9998-12-31T00:00:00Z"}, "1970"),
        ({"time_zone": "Mars/Olympus"}, "IANA"),
        ({"limit": "0"}, "limit"),
        ({"limit": "501"}, "limit"),
        ({"cursor": "x"}, "cursor"),
        ({"cursor": "WzFd"}, "cursor"),
    ],
)
async def test_a_query_that_means_nothing_is_a_problem_in_clear_words(
    client: httpx.AsyncClient, query: dict[str, str], says: str
) -> None:
    response = await client.get("/v1/accounts/acct-7/usage", params=query)
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
    assert says in response.json()["detail"]


async def test_a_cursor_of_another_list_is_refused(database: Database, client: httpx.AsyncClient) -> None:
    await meter_reports(database, [report(sku="a"), report(0, 10, sku="b", resource_id="other")])
    page = await client.get("/v1/accounts/acct-7/usage", params={"group_by": "sku", "limit": "1"})
    cursor = page.json()["next_cursor"]
    response = await client.get(
        "/v1/accounts/acct-7/usage", params={"group_by": "resource", "cursor": cursor}
    )
    assert (response.status_code, response.json()["code"]) == (422, "invalid_request")


async def test_an_account_id_that_cannot_be_is_refused(client: httpx.AsyncClient) -> None:
    response = await client.get("/v1/accounts/a%00b/usage")
    assert response.status_code == 422

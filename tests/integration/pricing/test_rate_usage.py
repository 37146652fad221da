"""Metered facts in, charges out; usage without a price is kept until it has one."""

import asyncio
from collections.abc import Sequence
from functools import partial

import httpx
import msgspec
import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from services.pricing.consumers import UsageMeteredConsumer
from services.pricing.domain.document import BookDocument
from services.pricing.domain.rating import Pricer
from services.pricing.domain.unpriced import UnpricedSeconds
from services.pricing.usecases import rerate_unpriced
from services.pricing.usecases.list_unpriced import ListUnpriced
from services.pricing.usecases.load_pricer import LoadPricer
from services.pricing.usecases.publish_book import PublishBook
from services.pricing.usecases.rate_usage import RateUsage
from services.pricing.usecases.rerate_unpriced import RerateUnpriced
from shared.contracts.facts import ChargeRated, Segment, UsageMetered, encode_fact, fact_key
from shared.contracts.topics import CHARGE_RATED, USAGE_METERED
from shared.database import Database
from shared.kafka import Message, Record
from tests.support.books import book_body, metered, segment, sku_body
from tests.support.clients import wait_for
from tests.support.publishers import RecordingPublisher

HOUR = "2026-03-10T10:00:00Z"
EARLIER = "2026-03-10T09:00:00Z"


class ChargePublisher(RecordingPublisher):
    def charges(self) -> list[ChargeRated]:
        return [charge_of(message) for message in self.told]


class DiesAfterPublishing(RerateUnpriced):
    async def _settle(self, *_: object) -> None:
        raise KeyboardInterrupt


@pytest.fixture
def publisher() -> ChargePublisher:
    return ChargePublisher()


@pytest.fixture
def rerate(database: Database, load_pricer: LoadPricer, publisher: ChargePublisher) -> RerateUnpriced:
    return RerateUnpriced(database, load_pricer, publisher, poll_seconds=0.01)


def record(fact: UsageMetered, offset: int = 0) -> Record:
    return raw(encode_fact(fact), offset)


def raw(value: bytes | None, offset: int = 0) -> Record:
    return Record(USAGE_METERED.name, 0, offset, 0, b"key", value, ())


def charge_of(message: Message) -> ChargeRated:
    return msgspec.json.decode(message.value, type=ChargeRated)


def unknown(*segments: Segment, revision: int = 1, hour: str = HOUR, resource_id: str = "i") -> UsageMetered:
    parts = segments or (segment((0, 600), sku="rtx-6090"),)
    return metered(hour, *parts, revision=revision, resource_id=resource_id)


def correction(*skus: str) -> BookDocument:
    """The default book with these skus at 6.00 an hour, from the beginning of 2026."""
    body = book_body(correction=True)
    body["skus"] += [sku_body(sku, price="6.00") for sku in skus]
    return BookDocument.model_validate(body)


async def waiting(list_unpriced: ListUnpriced) -> list[UnpricedSeconds]:
    return list((await list_unpriced(None, 100, None))[0])


async def test_a_fact_becomes_a_charge_of_the_same_key(consumer: UsageMeteredConsumer) -> None:
    fact = metered(HOUR, segment(quantity=2), revision=7)
    outcome = await consumer.handle([record(fact)])
    assert outcome.rejected == []
    (message,) = outcome.messages
    key = fact_key("acct-7", "inst-8f2c", HOUR)
    assert message[:2] == (CHARGE_RATED.name, key)
    assert message.partition_by == b"acct-7"
    charge = charge_of(message)
    assert (charge.amount, charge.revision, charge.price_book) == (3_320_000, 7, 1)


async def test_a_batch_tells_the_newest_revision_of_each_hour_once(consumer: UsageMeteredConsumer) -> None:
    facts = [
        metered(HOUR, segment((0, 1_200)), revision=2),
        metered(HOUR, segment((0, 600)), revision=1),
        metered(EARLIER, segment((0, 600)), revision=9),
        metered(HOUR, segment((0, 1_200)), revision=2),
    ]
    outcome = await consumer.handle([record(fact) for fact in facts])
    told = [charge_of(message) for message in outcome.messages]
    assert sorted((charge.hour, charge.revision, charge.amount) for charge in told) == [
        (EARLIER, 9, 276_666),
        (HOUR, 2, 553_333),
    ]
    again = await consumer.handle([record(fact) for fact in reversed(facts)])
    assert sorted(again.messages) == sorted(outcome.messages)


async def test_what_cannot_be_read_or_rated_is_refused_and_the_rest_is_rated(
    consumer: UsageMeteredConsumer,
) -> None:
    records = [
        raw(b"{", 0),
        raw(None, 1),
        raw(b'{"account_id": "a"}', 2),
        raw(b"\xff", 3),
        record(metered(HOUR, segment((0, 4_000))), 4),
        record(metered(EARLIER, segment()), 5),
    ]
    outcome = await consumer.handle(records)
    assert [(rejected.record.offset, rejected.code) for rejected in outcome.rejected] == [
        (offset, "invalid_fact") for offset in range(5)
    ]
    assert [charge_of(message).hour for message in outcome.messages] == [EARLIER]


async def test_a_charge_follows_a_book_published_between_two_batches(
    consumer: UsageMeteredConsumer, publish_book: PublishBook
) -> None:
    first = await consumer.handle([record(metered(HOUR, segment()))])
    body = book_body(effective_from="2026-03-10T10:30:00Z", correction=True)
    body["skus"][1]["price"] = "1.80"
    await publish_book(BookDocument.model_validate(body))
    second = await consumer.handle([record(metered(HOUR, segment()))])
    charges = [charge_of(outcome.messages[0]) for outcome in (first, second)]
    assert [(charge.price_book, charge.amount) for charge in charges] == [(1, 1_660_000), (2, 1_730_000)]


async def test_usage_without_a_price_is_kept_and_listed(
    consumer: UsageMeteredConsumer, api: httpx.AsyncClient
) -> None:
    both = unknown(segment((0, 60)), segment((60, 70), sku="rtx-6090"), segment((70, 90), sku="rtx-7090"))
    outcome = await consumer.handle([record(both), record(unknown(resource_id="j"))])
    assert [charge_of(message).amount for message in outcome.messages] == [27_666, 0]
    listed = (await api.get("/v1/unpriced")).json()
    assert [(item["resource_id"], item["sku"], item["seconds"]) for item in listed["items"]] == [
        ("i", "rtx-6090", 10),
        ("i", "rtx-7090", 20),
        ("j", "rtx-6090", 600),
    ]
    assert listed["items"][0]["hour"] == HOUR
    assert listed["next_cursor"] is None
    only = (await api.get("/v1/unpriced", params={"sku": "rtx-7090"})).json()["items"]
    assert [item["resource_id"] for item in only] == ["i"]


async def test_unpriced_usage_is_paged_by_item(
    consumer: UsageMeteredConsumer, api: httpx.AsyncClient
) -> None:
    both = segment((60, 70), sku="b"), segment((70, 90), sku="a")
    facts = [unknown(*both, resource_id=name, hour=hour) for name in "ij" for hour in (HOUR, EARLIER)]
    await consumer.handle([record(fact) for fact in facts])
    seen: list[tuple[str, str, str]] = []
    cursor: dict[str, str] = {}
    while True:
        page = (await api.get("/v1/unpriced", params={"limit": "3", **cursor})).json()
        seen += [(item["resource_id"], item["hour"], item["sku"]) for item in page["items"]]
        if page["next_cursor"] is None:
            break
        assert len(page["items"]) == 3
        cursor = {"cursor": page["next_cursor"]}
    assert seen == [(name, hour, sku) for name in "ij" for hour in (EARLIER, HOUR) for sku in "ab"]
    for nonsense in ("nonsense", "W10"):
        assert (await api.get("/v1/unpriced", params={"cursor": nonsense})).status_code == 422


async def test_only_the_newest_revision_is_kept(
    consumer: UsageMeteredConsumer, list_unpriced: ListUnpriced
) -> None:
    await consumer.handle([record(unknown(segment((0, 20), sku="x"), revision=2))])
    await consumer.handle([record(unknown(segment((0, 10), sku="x"), revision=1))])
    assert [(usage.revision, usage.seconds) for usage in await waiting(list_unpriced)] == [(2, 20)]
    await consumer.handle([record(unknown(segment((0, 30), sku="x"), revision=3))])
    assert [(usage.revision, usage.seconds) for usage in await waiting(list_unpriced)] == [(3, 30)]


async def test_a_later_fact_that_has_its_price_ends_the_waiting(
    consumer: UsageMeteredConsumer, list_unpriced: ListUnpriced
) -> None:
    await consumer.handle([record(unknown(revision=2)), record(unknown(resource_id="j"))])
    await consumer.handle([record(unknown(segment((0, 10)), revision=1))])
    assert [usage.resource_id for usage in await waiting(list_unpriced)] == ["i", "j"]
    await consumer.handle([record(unknown(segment((0, 10)), revision=3))])
    assert [usage.resource_id for usage in await waiting(list_unpriced)] == ["j"]


async def test_usage_is_rated_once_a_book_has_its_price(
    consumer: UsageMeteredConsumer,
    publish_book: PublishBook,
    rerate: RerateUnpriced,
    publisher: ChargePublisher,
    list_unpriced: ListUnpriced,
) -> None:
    await consumer.handle([record(unknown(revision=4)), record(unknown(segment((0, 9), sku="other")))])
    both = unknown(segment((0, 600), sku="rtx-6090"), segment((600, 700), sku="other"), resource_id="j")
    await consumer.handle([record(unknown(revision=4)), record(both)])
    assert await rerate() == 0
    await publish_book(correction("rtx-6090"))
    assert await rerate() == 2
    assert [(charge.resource_id, charge.revision, charge.price_book) for charge in publisher.charges()] == [
        ("i", 4, 2),
        ("j", 1, 2),
    ]
    assert [charge.amount for charge in publisher.charges()] == [1_000_000, 1_000_000]
    assert [
        (usage.resource_id, usage.sku, usage.seconds, usage.price_book)
        for usage in await waiting(list_unpriced)
    ] == [("j", "other", 100, 2)]
    assert await rerate() == 0
    await publish_book(correction("rtx-6090", "other"))
    assert await rerate() == 1
    assert publisher.charges()[-1].amount == 1_166_666
    assert await waiting(list_unpriced) == []


async def test_a_crash_between_telling_and_forgetting_tells_again(
    database: Database,
    consumer: UsageMeteredConsumer,
    publish_book: PublishBook,
    rerate: RerateUnpriced,
    publisher: ChargePublisher,
    list_unpriced: ListUnpriced,
) -> None:
    await consumer.handle([record(unknown())])
    await publish_book(correction("rtx-6090"))
    with pytest.raises(KeyboardInterrupt):
        await DiesAfterPublishing(database, LoadPricer(), publisher, 1.0)()
    assert len(await waiting(list_unpriced)) == 1
    assert await rerate() == 1
    first, second = publisher.told
    assert first == second
    assert await waiting(list_unpriced) == []


async def test_nothing_is_forgotten_when_the_broker_does_not_answer(
    consumer: UsageMeteredConsumer,
    publish_book: PublishBook,
    rerate: RerateUnpriced,
    publisher: ChargePublisher,
    list_unpriced: ListUnpriced,
) -> None:
    await consumer.handle([record(unknown())])
    await publish_book(correction("rtx-6090"))
    publisher.fault = OSError("no broker")
    with pytest.raises(OSError, match="no broker"):
        await rerate()
    assert len(await waiting(list_unpriced)) == 1
    publisher.fault = None
    assert await rerate() == 1
    assert await waiting(list_unpriced) == []


async def test_a_revision_that_comes_while_an_older_one_is_rated_again_stays(
    database: Database,
    load_pricer: LoadPricer,
    consumer: UsageMeteredConsumer,
    publish_book: PublishBook,
    publisher: ChargePublisher,
    list_unpriced: ListUnpriced,
) -> None:
    newer = unknown(segment((0, 600), sku="rtx-6090"), segment((600, 700), sku="other"), revision=2)

    class MetersMeanwhile(RerateUnpriced):
        async def _settle(self, facts: Sequence[UsageMetered], charges: Sequence[ChargeRated]) -> None:
            await consumer.handle([record(newer)])
            await super()._settle(facts, charges)

    await consumer.handle([record(unknown(revision=1))])
    await publish_book(correction("rtx-6090"))
    await MetersMeanwhile(database, load_pricer, publisher, 1.0)()
    assert [(usage.revision, usage.sku) for usage in await waiting(list_unpriced)] == [(2, "other")]


async def test_a_row_written_under_an_old_book_after_the_new_one_was_published_is_found(
    database: Database,
    publish_book: PublishBook,
    rerate: RerateUnpriced,
    publisher: ChargePublisher,
    list_unpriced: ListUnpriced,
) -> None:
    class OldPricer(LoadPricer):
        """Of a worker that read the head just before the publication."""

        async def __call__(self, connection: AsyncConnection, head: int) -> Pricer:
            return await super().__call__(connection, min(head, 1))

    late = RateUsage(database, OldPricer())
    await late([metered(HOUR, segment())])
    await publish_book(correction("rtx-6090"))
    await rerate()
    await late([unknown()])
    assert [usage.price_book for usage in await waiting(list_unpriced)] == [1]
    assert await rerate() == 1
    assert publisher.charges()[-1].price_book == 2
    assert await waiting(list_unpriced) == []


async def test_many_rows_are_rated_again_in_pieces(
    monkeypatch: pytest.MonkeyPatch,
    consumer: UsageMeteredConsumer,
    publish_book: PublishBook,
    rerate: RerateUnpriced,
    publisher: ChargePublisher,
    list_unpriced: ListUnpriced,
) -> None:
    monkeypatch.setattr(rerate_unpriced, "BATCH_ROWS_MAX", 3)
    await consumer.handle([record(unknown(resource_id=f"r-{number}")) for number in range(10)])
    await publish_book(correction("other"))
    assert await rerate() == 10
    assert len(await waiting(list_unpriced)) == 10
    assert {usage.price_book for usage in await waiting(list_unpriced)} == {2}
    await publish_book(correction("rtx-6090"))
    assert await rerate() == 10
    assert len(publisher.told) == 20
    assert await waiting(list_unpriced) == []


async def test_the_worker_waits_for_the_broker_and_goes_on(
    consumer: UsageMeteredConsumer,
    publish_book: PublishBook,
    rerate: RerateUnpriced,
    publisher: ChargePublisher,
    list_unpriced: ListUnpriced,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await consumer.handle([record(unknown())])
    await publish_book(correction("rtx-6090"))
    publisher.fault = OSError("no broker")
    stop = asyncio.Event()
    working = asyncio.create_task(rerate.run(stop))

    async def warnings() -> int:
        return caplog.text.count("re-rating waits: OSError: no broker")

    assert await wait_for(warnings, lambda count: count > 1) > 1
    publisher.fault = None
    assert await wait_for(partial(waiting, list_unpriced), lambda left: left == []) == []
    stop.set()
    await working
    assert [charge.amount for charge in publisher.charges()] == [1_000_000]

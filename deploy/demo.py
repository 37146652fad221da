"""`make demo`: a small fleet's reports through Kafka, and the bills that come out.

Six accounts, two days of usage, reports as node agents send them: by the minute, some twice, some lost and
sent again as a longer interval. The stack must be up (`make up`); it is left up.
"""

import asyncio
import json
import os
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import httpx
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from shared.contracts.usage import EVENT_TYPE
from shared.time import format_instant, system_clock

SHANGHAI = ZoneInfo("Asia/Shanghai")
STACK_ENV = Path(os.environ.get("STACK_ENV", ".run/stack.env"))
TOPIC = "usage.reported.v1"
REPORT_SECONDS = 60
DEADLINE_SECONDS = 150
HOUR = 3600


@dataclass
class Run:
    """One state of one resource, from `start` to `end`, seconds after the demo's midnight."""

    resource: str
    start: int
    end: int
    sku: str
    quantity: int = 1
    mode: str = "gpu"
    purchase: str = "on_demand"
    labels: dict[str, str] = field(default_factory=dict)
    crash: bool = False
    """Some reports are lost and sent again as one longer interval; many arrive twice, late and shuffled."""


@dataclass
class Customer:
    """An account of the demo; `expected` is its bill, worked out by hand."""

    name: str
    kind: str
    story: str
    top_up: str | None
    runs: Sequence[Run]
    expected: Decimal


def nights(sku: str, quantity: int, hours: int) -> list[Run]:
    """`hours` of training that only runs from 23:00 to 08:00."""
    runs: list[Run] = []
    start = 23 * HOUR
    while hours > 0:
        length = min(9, hours)
        runs.append(
            Run(
                f"train-{len(runs) + 1}",
                start,
                start + length * HOUR,
                sku,
                quantity,
                purchase="night_auction",
            )
        )
        hours -= length
        start += 24 * HOUR
    return runs


CUSTOMERS = (
    Customer(
        "Inference by day", "personal",
        "a 4090 serves a model from 09:00 to 18:00; 10 yuan of trial credit first, then cash",
        "20.00",
        [Run("serve", 9 * HOUR, 18 * HOUR, "rtx-4090", labels={"workload": "inference"})],
        Decimal("14.94"),
    ),
    Customer(
        "CLIP from 23:00, 42 h on end", "enterprise",
        "32 cards x 42 h from 23:00 as night auction: 18 night hours at half price, 24 at full price",
        "3000.00",
        [Run("clip", 23 * HOUR, 65 * HOUR, "rtx-4090-cluster", 32, purchase="night_auction")],
        Decimal("2006.40"),
    ),
    Customer(
        "CLIP, only by night", "enterprise",
        "the same 32 cards x 42 h, run only between 23:00 and 08:00: every hour at half price",
        "3000.00",
        nights("rtx-4090-cluster", 32, 42),
        Decimal("1276.80"),
    ),
    Customer(
        "Debugging without a GPU", "university",
        "2 h of an A100, 3 h without its GPU to debug, 5 min of the A100 again: all paid by trial credit",
        None,
        [
            Run("dev", 10 * HOUR, 12 * HOUR, "a100-80g"),
            Run("dev", 12 * HOUR, 15 * HOUR, "a100-80g", mode="no_gpu"),
            Run("dev", 15 * HOUR, 15 * HOUR + 300, "a100-80g"),
        ],
        Decimal("9.845"),
    ),
    Customer(
        "A disk for a day", "personal",
        "500 GB of cloud disk for 24 h; storage knows no night and no GPU",
        None,
        [Run("disk-1", 0, 24 * HOUR, "disk-ssd", 500)],
        Decimal("6.00"),
    ),
    Customer(
        "A node that crashes", "personal",
        "8 domestic cards for 2 h 30 min, then the node dies; reports are lost, repeated, shuffled",
        "50.00",
        [Run("train", 13 * HOUR, 15 * HOUR + 1800, "ascend-910b", 8, crash=True)],
        Decimal("23.904"),
    ),
)  # fmt: skip


async def main() -> None:
    stack = read_stack()
    now = system_clock()
    midnight = datetime.combine(
        (now.astimezone(SHANGHAI) - timedelta(days=8)).date(), datetime.min.time(), SHANGHAI
    )
    suffix = f"{now:%m%d-%H%M%S}"
    accounts = {f"demo-{number}-{suffix}": customer for number, customer in enumerate(CUSTOMERS, 1)}
    headers = {"authorization": f"Bearer {stack['OPERATOR_KEY']}"}
    async with httpx.AsyncClient(base_url=stack["GATEWAY_URL"], headers=headers, timeout=30) as api:
        say("1. Accounts are opened, trial credit is granted, money comes in")
        for account_id, customer in accounts.items():
            await open_account(api, account_id, customer, midnight.astimezone(UTC) - timedelta(days=1))
        events = [
            event
            for account_id, customer in accounts.items()
            for event in reports(account_id, customer, midnight)
        ]
        random.Random(7).shuffle(events)  # noqa: S311 - the same disorder each time
        say(f"2. Node agents stream {len(events):,} reports through Kafka, shuffled, many of them twice")
        started = time.monotonic()
        await stream(stack["KAFKA_BOOTSTRAP"], events)
        say(f"   sent in {time.monotonic() - started:.1f} s")
        say("3. Metered, priced, accrued, settled")
        await settled(api, accounts)
        say(f"   every hour settled {time.monotonic() - started:.1f} s after the first report\n")
        wrong = [
            account_id
            for account_id in accounts
            if not await show_bill(api, account_id, accounts[account_id])
        ]
    say("The published example says 800 yuan. That cannot hold: 32 cards x 42 h x 1.90 is 2,553.60,")
    say("half of it 1,276.80, and 42 h from 23:00 have only 18 night hours: the honest bill is 2,006.40.\n")
    if wrong:
        sys.exit(f"demo: the bills of {', '.join(wrong)} are not what they must be")
    show_what_next(stack, next(iter(accounts)), midnight)


def read_stack() -> dict[str, str]:
    if not STACK_ENV.exists():
        sys.exit("demo: the stack is not up; run `make up` first")
    pairs = (line.split("=", 1) for line in STACK_ENV.read_text().splitlines() if "=" in line)
    return {name: value.strip().strip("'\"") for name, value in pairs}


async def open_account(
    api: httpx.AsyncClient, account_id: str, customer: Customer, registered: datetime
) -> None:
    await post(
        api, "/v1/accounts",
        {
            "account_id": account_id, "name": customer.name, "kind": customer.kind,
            "registered_at": format_instant(registered),
        },
    )  # fmt: skip
    if customer.top_up:
        top_up = {"amount": customer.top_up, "channel": "alipay", "reference": f"{account_id}-1"}
        await post(api, f"/v1/accounts/{account_id}/top-ups", top_up)
    balance = await get(api, f"/v1/accounts/{account_id}/balance")
    trial = sum(Decimal(lot["remaining"]) for lot in balance["credits"])
    say(f"   {account_id:24} {customer.name:30} trial {trial:>6.2f}  cash {Decimal(balance['cash']):>8.2f}")


def reports(account_id: str, customer: Customer, midnight: datetime) -> Iterable[dict[str, Any]]:
    """What the node agents of this customer send, lost and repeated reports included."""
    base = midnight.astimezone(UTC)
    for run in customer.runs:
        dice = random.Random(f"{customer.name}{run.resource}{run.start}")  # noqa: S311 - the same each time
        lost_from: int | None = None
        for second in range(run.start, run.end, REPORT_SECONDS):
            until = min(run.end, second + REPORT_SECONDS)
            if run.crash and dice.random() < 0.3 and until < run.end:  # noqa: PLR2004 - three of ten are lost
                lost_from = second if lost_from is None else lost_from
                continue
            event = report(account_id, run, base, lost_from if lost_from is not None else second, until)
            lost_from = None
            yield event
            if dice.random() < (0.5 if run.crash else 0.1):
                yield event


def report(account_id: str, run: Run, base: datetime, start: int, end: int) -> dict[str, Any]:
    def at(seconds: int) -> str:
        return format_instant(base + timedelta(seconds=seconds))

    return {
        "specversion": "1.0", "type": EVENT_TYPE, "source": "/nodes/demo-01",
        "id": f"{account_id}/{run.resource}/{start}-{end}", "subject": run.resource, "time": at(end),
        "data": {
            "account_id": account_id, "sku": run.sku, "quantity": run.quantity, "mode": run.mode,
            "purchase": run.purchase, "since": at(run.start), "start": at(start), "end": at(end),
            "labels": run.labels,
        },
    }  # fmt: skip


async def stream(bootstrap: str, events: Sequence[dict[str, Any]]) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=5)
    await producer.start()
    content_type = [("content-type", b"application/cloudevents+json")]
    try:
        for first in range(0, len(events), 1000):
            acks = [
                await producer.send(
                    TOPIC, json.dumps(event).encode(), key=event["subject"].encode(), headers=content_type
                )
                for event in events[first : first + 1000]
            ]
            await asyncio.gather(*acks)
            progress(
                f"   {min(first + 1000, len(events)):>7,} of {len(events):,} reports acked by the broker"
            )
    finally:
        await producer.stop()
    progress(None)


async def settled(api: httpx.AsyncClient, accounts: dict[str, Customer]) -> None:
    """Waits until each account's settled charges are what they must be, showing how far they are."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    due = sum(customer.expected for customer in accounts.values())
    while True:
        balances = [await get(api, f"/v1/accounts/{account_id}/balance") for account_id in accounts]
        charges = [await all_items(api, f"/v1/accounts/{account_id}/charges") for account_id in accounts]
        charged = sum(Decimal(charge["amount"]) for items in charges for charge in items)
        accrued = sum(Decimal(balance["accrued"]) for balance in balances)
        progress(f"   charged {charged:>10.2f}   of it settled {charged - accrued:>10.2f}   of {due:.2f}")
        if charged >= due and accrued == 0:
            return progress(None)
        if time.monotonic() > deadline:
            progress(None)
            sys.exit(
                f"demo: after {DEADLINE_SECONDS} s only {charged - accrued:.2f} of {due:.2f} is settled,"
                " see .run/log"
            )
        await asyncio.sleep(0.5)


async def show_bill(api: httpx.AsyncClient, account_id: str, customer: Customer) -> bool:
    balance = await get(api, f"/v1/accounts/{account_id}/balance")
    charges = await all_items(api, f"/v1/accounts/{account_id}/charges")
    lines: dict[tuple[Any, ...], list[Decimal | int]] = defaultdict(lambda: [0, Decimal(0)])
    for charge in charges:
        for line in charge["lines"]:
            factors = " ".join(f"x {factor['factor']} {factor['rule']}" for factor in line["factors"])
            key = (line["sku"], line["quantity"], Decimal(line["unit_price"]), line["per"], factors)
            lines[key][0] += line["seconds"]
            lines[key][1] += Decimal(line["amount"])
    total = sum(Decimal(charge["amount"]) for charge in charges)
    say(f"{customer.name}: {customer.story}")
    for (sku, quantity, price, per, factors), (seconds, amount) in sorted(lines.items()):
        hours = Decimal(seconds) / HOUR
        say(
            f"   {sku:17}{quantity:>4} x {hours:>6.2f} h at {price.normalize():f}/{per}"
            f" {factors:20} {amount:>14.6f}"
        )
    trial = next((lot for lot in balance["credits"] if lot["kind"] == "trial"), None)
    trial_left = Decimal(trial["remaining"]) if trial else Decimal(0)
    verdict = "" if total == customer.expected else f"  <-- must be {customer.expected}"
    say(f"   {'total':62} {total:>14.6f}{verdict}")
    say(
        f"   trial credit burned {10 - trial_left:.2f} of 10.00, cash left {Decimal(balance['cash']):.2f}, "
        f"debt {Decimal(balance['debt']):.2f}, available {Decimal(balance['available']):.2f},"
        f" {balance['standing']}\n"
    )
    return total == customer.expected


def show_what_next(stack: dict[str, str], account_id: str, midnight: datetime) -> None:
    url, start = stack["GATEWAY_URL"], format_instant(midnight)
    say("The stack is still up. Try:")
    say(f"   . {STACK_ENV}")
    for path in (
        f"/v1/accounts/{account_id}/balance",
        f"/v1/accounts/{account_id}/charges?limit=1",
        f"/v1/accounts/{account_id}/usage?from={start}&group_by=day,sku",
        f"/v1/accounts/{account_id}/journal?limit=2",
        "/v1/price-book",
    ):
        say(f"   curl -sS -H \"authorization: Bearer $OPERATOR_KEY\" '{url}{path}'")
    run_dir = STACK_ENV.parent
    which = "" if str(run_dir) == ".run" else f" RUN_DIR={run_dir}"
    say(f"   {url}/docs shows every call; `make down{which}` stops the stack.")


async def get(api: httpx.AsyncClient, path: str, **params: str | int) -> dict[str, Any]:
    return checked(await api.get(path, params=params))


async def post(api: httpx.AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    return checked(await api.post(path, json=body))


async def all_items(api: httpx.AsyncClient, path: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = await get(api, path, limit=500, **cursor)
        items += page["items"]
        if page["next_cursor"] is None:
            return items
        cursor = {"cursor": page["next_cursor"]}


def checked(response: httpx.Response) -> dict[str, Any]:
    body: dict[str, Any] = response.json()
    if response.is_error:
        sys.exit(
            f"demo: {response.request.method} {response.url.path} answered {response.status_code}:"
            f" {body.get('detail')}"
        )
    return body


def say(line: str) -> None:
    print(line, flush=True)


def progress(line: str | None) -> None:
    """One line that is written over and over on a terminal; None ends it."""
    if not sys.stdout.isatty():
        return
    print("" if line is None else f"\r{line}", end="\n" if line is None else "", flush=True)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except (httpx.TransportError, KafkaError) as error:
        sys.exit(f"demo: the stack does not answer ({type(error).__name__}); is it up? `make status` tells")

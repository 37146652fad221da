"""One run of a scenario on a live stack: its own accounts, its own days, and what came of it."""

import asyncio
import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Final
from zoneinfo import ZoneInfo

from shared.time import system_clock
from tests.support.clients import GatewayClient, NodeAgent, wait_for
from tests.support.databases import unique_suffix
from tests.support.ledger import Ledger, micro
from tests.support.reports import JsonObject, instant, usage_event
from tests.support.scenarios import Account, Event, Expected, Stream, load_scenario

SHANGHAI: Final = ZoneInfo("Asia/Shanghai")
STREAM_DAYS_MAX: Final = 4
USUAL_DAYS_PAST: Final = 6
SETTLED_SECONDS: Final = 120.0
SETTLED_AFTER_FAULTS_SECONDS: Final = 300.0

_priced_days = count(USUAL_DAYS_PAST + 2 + STREAM_DAYS_MAX, STREAM_DAYS_MAX + 1)
"""Runs that change prices get days of their own, so that no other run is rated by their books."""


def shanghai_midnight(days_past: int) -> datetime:
    today = system_clock().astimezone(SHANGHAI).replace(hour=0, minute=0, second=0, microsecond=0)
    return today - timedelta(days=days_past)


@dataclass(frozen=True)
class Settled:
    """What the product says of one run, in the shape of the right answer."""

    hours: dict[tuple[str, str, int], tuple[int, int]]
    unsettled: int
    debt: dict[str, int]
    left: dict[str, dict[str, int]]
    accrued: int
    faults: tuple[str, ...] = ()
    """Where the balance and the journal tell different stories."""


@dataclass(frozen=True)
class ScenarioRun:
    """`prefix` keeps the accounts apart from those of all other runs."""

    stream: Stream
    expected: Expected
    prefix: str
    base: datetime

    def at(self, second: float) -> datetime:
        return self.base + timedelta(microseconds=round(second * 1_000_000))

    def account_id(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    async def open_accounts(self, operator: GatewayClient) -> None:
        """Books differing prices first, then accounts, cash and vouchers."""
        await self._change_prices(operator)
        for account in self.stream["accounts"]:
            await self._open(operator, account)

    def reports(self, *, copies: int = 1, shuffle: random.Random | None = None) -> list[JsonObject]:
        """The events in delivery order; every copy is the same event with the same id."""
        reports = [self._report(number, event) for number, event in enumerate(self.stream["events"])]
        reports *= copies
        if shuffle is not None:
            shuffle.shuffle(reports)
        return reports

    async def observe(self, operator: GatewayClient) -> Settled:
        hours: dict[tuple[str, str, int], tuple[int, int]] = {}
        debt: dict[str, int] = {}
        left: dict[str, dict[str, int]] = {}
        unsettled = accrued = 0
        faults: list[str] = []
        for account in self.stream["accounts"]:
            name = account["account"]
            path = f"/v1/accounts/{self.account_id(name)}"
            settled = 0
            for charge in await operator.items(f"{path}/charges"):
                hour = int((datetime.fromisoformat(charge["hour"]) - self.base).total_seconds())
                seconds = sum(line["seconds"] for line in charge["lines"])
                hours[name, charge["resource_id"], hour] = (seconds, micro(charge["amount"]))
                unsettled += charge["settled"] != charge["amount"]
                settled += micro(charge["settled"])
            balance = await operator.balance(self.account_id(name))
            debt[name] = micro(balance["debt"])
            accrued += micro(balance["accrued"])
            ledger = Ledger(self.account_id(name), await operator.items(f"{path}/journal"))
            left[name] = ledger.left()
            faults += _disagreements(name, settled, balance, ledger)
        return Settled(hours, unsettled, debt, left, accrued, tuple(faults))

    @property
    def answer(self) -> Settled:
        accounts = self.expected["accounts"]
        return Settled(
            hours={
                (hour["account"], hour["resource"], hour["hour"]): (hour["seconds"], hour["amount"])
                for hour in self.expected["hours"]
            },
            unsettled=0,
            debt={name: account["debt"] for name, account in accounts.items()},
            left={
                name: {
                    "trial": account["trial_left"],
                    "promo": account["promo_left"],
                    "cash": account["cash_left"],
                }
                for name, account in accounts.items()
            },
            accrued=0,
        )

    async def _open(self, operator: GatewayClient, account: Account) -> None:
        account_id = self.account_id(account["account"])
        body: JsonObject = {
            "account_id": account_id,
            "name": f"{self.stream['name']} {account['account']}",
            "kind": "personal",
            "registered_at": instant(self.at(account["registered"])),
        }
        if not account.get("trial", True):
            body["trial"] = False
        await operator.post("/v1/accounts", body)
        for number, amount in enumerate(account.get("top_ups", [])):
            await operator.post(
                f"/v1/accounts/{account_id}/top-ups",
                {"amount": amount, "channel": "bank", "reference": f"top-up-{number}"},
            )
        for number, grant in enumerate(account.get("grants", [])):
            await operator.post(
                f"/v1/accounts/{account_id}/grants",
                {
                    "kind": "promo",
                    "amount": grant["amount"],
                    "effective_at": instant(self.at(grant["from"])),
                    "expires_at": instant(self.at(grant["to"])),
                    "reference": f"grant-{number}",
                },
            )

    async def _change_prices(self, operator: GatewayClient) -> None:
        """Books that hold for the days of this run only: the later one restores what was before."""
        changes = self.stream.get("price_changes") or []
        if not changes:
            return
        usual = await operator.get("/v1/price-book", at=instant(self.base))
        restored = self.at(STREAM_DAYS_MAX * 86_400)
        await operator.post("/v1/price-books", corrected_book(usual, restored, {}))
        prices: dict[str, str] = {}
        for change in sorted(changes, key=lambda change: change["from"]):
            prices[change["sku"]] = change["price"]
            await operator.post("/v1/price-books", corrected_book(usual, self.at(change["from"]), prices))

    def _report(self, number: int, event: Event) -> JsonObject:
        state = {name: event[name] for name in ("quantity", "mode", "purchase", "labels") if name in event}
        return usage_event(
            account_id=self.account_id(event["account"]),
            resource_id=event["resource"],
            since=self.at(event["since"]),
            start=self.at(event["start"]),
            end=self.at(event["end"]),
            sku=event["sku"],
            source=f"/nodes/{self.prefix}",
            event_id=f"{self.prefix}/{number:06d}",
            **state,
        )


def run_of(stream: Stream, expected: Expected) -> ScenarioRun:
    days_past = next(_priced_days) if stream.get("price_changes") else USUAL_DAYS_PAST
    return ScenarioRun(stream, expected, f"{stream['name']}-{unique_suffix()}", shanghai_midnight(days_past))


def scenario_run(name: str) -> ScenarioRun:
    scenario = load_scenario(name)
    return run_of(scenario, scenario["expected"])


async def deliver_mixed(reports: list[JsonObject], operator: GatewayClient, agent: NodeAgent) -> None:
    """A third each over HTTP, Kafka structured and Kafka binary, all at once."""
    async with asyncio.TaskGroup() as roads:
        roads.create_task(operator.post_events(reports[0::3]))
        roads.create_task(agent.report(reports[1::3], "structured"))
        roads.create_task(agent.report(reports[2::3], "binary"))


async def outcome(run: ScenarioRun, operator: GatewayClient, *, timeout: float = SETTLED_SECONDS) -> Settled:
    """What came of it once it is as it should be, or when time is up."""
    return await wait_for(lambda: run.observe(operator), lambda seen: seen == run.answer, timeout=timeout)


def corrected_book(usual: JsonObject, effective_from: datetime, prices: dict[str, str]) -> JsonObject:
    """A correction as posted: the book that was read, with these prices from that instant on."""
    document = {name: value for name, value in usual.items() if name in _BOOK_FIELDS}
    skus = [{**sku, "price": prices[sku["sku"]]} if sku["sku"] in prices else sku for sku in usual["skus"]]
    return {**document, "skus": skus, "effective_from": instant(effective_from), "correction": True}


_BOOK_FIELDS: Final = {"time_zone", "currency", "skus", "rules", "trial_credit"}


def _disagreements(name: str, settled: int, balance: JsonObject, ledger: Ledger) -> list[str]:
    in_time = [
        lot for lot in balance["credits"] if lot["effective_at"] <= balance["as_of"] and not lot["expired"]
    ]
    in_credits = sum(micro(lot["remaining"]) for lot in in_time)
    pairs = {
        "cash": (micro(balance["cash"]), ledger.in_lots("cash")),
        "debt": (micro(balance["debt"]), ledger.debt),
        "revenue": (settled, ledger.charged),
        "total of the ledger": (0, ledger.total),
        "available": (
            micro(balance["available"]),
            micro(balance["cash"]) + in_credits - micro(balance["accrued"]) - micro(balance["debt"]),
        ),
    }
    return [f"{name}: {what}: {said} but {is_}" for what, (said, is_) in pairs.items() if said != is_]

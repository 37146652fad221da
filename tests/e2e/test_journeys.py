"""What customers, agents and operators go through, by name."""

from datetime import timedelta
from typing import Any, Final

import msgspec
import pytest

from shared.time import system_clock
from tests.support.clients import GatewayClient, NodeAgent, read_topic, wait_for
from tests.support.databases import unique_suffix
from tests.support.ledger import Ledger, micro
from tests.support.reports import JsonObject, instant, minutes, usage_event
from tests.support.runs import corrected_book, shanghai_midnight
from tests.support.stack import Stack

pytestmark = pytest.mark.kafka

MORNING: Final = shanghai_midnight(3) + timedelta(hours=10)
"""10:00 in Shanghai, outside the night window, in an hour long closed."""


CORRECTED: Final = shanghai_midnight(2) + timedelta(hours=15)
"""An hour that no other test uses: its price is corrected."""


async def _open_account(operator: GatewayClient, **fields: Any) -> str:
    account_id = f"journey-{unique_suffix()}"
    body = {"account_id": account_id, "name": "星宇实验室", "kind": "university", **fields}
    await operator.post("/v1/accounts", body)
    return account_id


async def _available(operator: GatewayClient, account_id: str, amount: str) -> JsonObject:
    balance = await wait_for(
        lambda: operator.balance(account_id), lambda seen: bool(seen["available"] == amount)
    )
    assert balance["available"] == amount
    return balance


async def _charges(operator: GatewayClient, account_id: str, amount: str) -> list[JsonObject]:
    def total(charges: list[JsonObject]) -> int:
        return sum(micro(charge["amount"]) for charge in charges)

    charges = await wait_for(
        lambda: operator.items(f"/v1/accounts/{account_id}/charges"),
        lambda seen: total(seen) == micro(amount),
    )
    assert total(charges) == micro(amount), charges
    return charges


async def _settled(operator: GatewayClient, account_id: str, amount: str) -> JsonObject:
    """The account's only charge, once it and what was taken for it are this much."""

    def is_settled(charges: list[JsonObject]) -> bool:
        return [(charge["amount"], charge["settled"]) for charge in charges] == [(amount, amount)]

    charges = await wait_for(lambda: operator.items(f"/v1/accounts/{account_id}/charges"), is_settled)
    assert is_settled(charges), charges
    return charges[0]


async def _standings(stack: Stack, account_id: str) -> list[JsonObject]:
    facts = [
        msgspec.json.decode(received.value)
        for received in await read_topic(stack.kafka_bootstrap, "account.standing.v1")
        if f'"{account_id}"'.encode() in received.value
    ]
    told = {fact["epoch"]: fact for fact in facts}
    return [told[epoch] for epoch in sorted(told)]


async def test_a_new_customer_runs_the_trial_to_its_end_and_tops_up(
    stack: Stack, operator: GatewayClient, agent: NodeAgent
) -> None:
    now = system_clock()
    boot = now - minutes(4)
    account_id = await _open_account(operator, registered_at=instant(now - minutes(30)))
    balance = await _available(operator, account_id, "10.000000")
    assert (balance["standing"], balance["currency"]) == ("good", "CNY")
    assert [lot["kind"] for lot in balance["credits"]] == ["trial"]

    state: JsonObject = {"account_id": account_id, "since": boot, "sku": "h100-80g", "quantity": 8}
    await agent.report([usage_event(start=boot, end=boot + minutes(3), **state)])
    balance = await _available(operator, account_id, "6.040000")
    assert balance["standing"] == "low"
    assert balance["burn_rate_per_hour"] == "79.200000"
    assert 0 < balance["runway_seconds"] <= 275

    await agent.report([usage_event(start=boot + minutes(3), end=boot + minutes(8), **state)])
    balance = await _available(operator, account_id, "-0.560000")
    assert balance["standing"] == "exhausted"

    await operator.post(
        f"/v1/accounts/{account_id}/top-ups", {"amount": "100", "channel": "alipay", "reference": "pay-1"}
    )
    balance = await _available(operator, account_id, "99.440000")
    told = await wait_for(lambda: _standings(stack, account_id), lambda seen: len(seen) >= 3)
    assert [fact["standing"] for fact in told][:2] == ["low", "exhausted"]
    assert told[-1]["standing"] == balance["standing"]
    assert len({fact["epoch"] for fact in told}) == len(told)


async def test_a_resize_under_way_is_billed_at_each_size_for_its_seconds(
    operator: GatewayClient, agent: NodeAgent
) -> None:
    account_id = await _open_account(operator, registered_at=instant(MORNING))
    resized = MORNING + minutes(30)
    one = usage_event(account_id=account_id, start=MORNING, end=resized + minutes(5), quantity=1)
    two = usage_event(
        account_id=account_id, start=resized, end=MORNING + minutes(60), quantity=2, event_id="boot-43/1"
    )
    await agent.report([two, one])
    (charge,) = await _charges(operator, account_id, "2.490000")
    lines = sorted(charge["lines"], key=lambda line: int(line["quantity"]))
    assert [(line["quantity"], line["seconds"], line["amount"]) for line in lines] == [
        (1, 1_800, "0.830000"),
        (2, 1_800, "1.660000"),
    ]
    assert [line["ranges"] for line in lines] == [[[0, 1_800]], [[1_800, 3_600]]]


async def test_a_crash_with_lost_and_repeated_reports_costs_what_ran(
    operator: GatewayClient, agent: NodeAgent
) -> None:
    account_id = await _open_account(operator, registered_at=instant(MORNING))

    def minute(number: int, until: int | None = None) -> JsonObject:
        return usage_event(
            account_id=account_id,
            since=MORNING,
            start=MORNING + minutes(number),
            end=MORNING + minutes(number + 1 if until is None else until),
            event_id=f"boot-42/{number:06d}-{until}",
        )

    # Minutes 3 and 4 are lost and told again as one interval; the node dies at 10:10 for good.
    sent = [minute(number) for number in range(10) if number not in (3, 4)]
    sent += [minute(0), minute(9), minute(3, until=5), minute(2, until=7)]
    await agent.report(sent)
    await agent.report(sent, "binary")
    (charge,) = await _charges(operator, account_id, "0.276666")
    assert [line["ranges"] for line in charge["lines"]] == [[[0, 600]]]


async def test_a_stretch_without_gpu_and_a_night_are_explained_by_their_rules(
    operator: GatewayClient, agent: NodeAgent
) -> None:
    account_id = await _open_account(operator, registered_at=instant(MORNING))
    edge = shanghai_midnight(3) + timedelta(hours=23)
    state: JsonObject = {
        "account_id": account_id,
        "purchase": "night_auction",
        "mode": "no_gpu",
        "since": edge - minutes(30),
    }
    await agent.report([usage_event(start=edge - minutes(30), end=edge + minutes(60), **state)])
    charges = await _charges(operator, account_id, "0.498000")
    by_hour = sorted(charges, key=lambda charge: str(charge["hour"]))
    assert [charge["amount"] for charge in by_hour] == ["0.249000", "0.249000"]
    rules = [[factor["rule"] for factor in charge["lines"][0]["factors"]] for charge in by_hour]
    assert rules == [["no_gpu"], ["night_auction", "no_gpu"]]


async def test_the_quote_is_the_bill(operator: GatewayClient, agent: NodeAgent) -> None:
    account_id = await _open_account(operator, registered_at=instant(MORNING))
    start, end = MORNING - minutes(90), MORNING + minutes(30)
    wanted: JsonObject = {"sku": "ascend-910b", "quantity": 3, "mode": "gpu", "purchase": "night_auction"}
    quote = await operator.post(
        "/v1/quotes", {"items": [{**wanted, "start": instant(start), "end": instant(end)}]}, status=200
    )
    await agent.report([usage_event(account_id=account_id, start=start, end=end, **wanted)])
    await _charges(operator, account_id, quote["total"])


async def test_a_settled_hour_is_charged_anew_when_its_price_is_corrected(
    operator: GatewayClient, agent: NodeAgent
) -> None:
    account_id = await _open_account(operator, registered_at=instant(CORRECTED))
    usual = await operator.get("/v1/price-book", at=instant(CORRECTED))
    half_past, end = CORRECTED + minutes(30), CORRECTED + minutes(60)
    await agent.report([usage_event(account_id=account_id, start=CORRECTED, end=end)])
    await _settled(operator, account_id, "1.660000")
    # A later book ends the correction, so that no other hour changes its price with it.
    await operator.post("/v1/price-books", corrected_book(usual, end, {}))
    try:
        await operator.post("/v1/price-books", corrected_book(usual, half_past, {"rtx-4090": "1.80"}))
        charge = await _settled(operator, account_id, "1.730000")
        assert (await operator.items("/v1/republish"))[0]["from"] == instant(CORRECTED)
        assert sorted(line["unit_price"] for line in charge["lines"]) == ["1.660000", "1.800000"]
        assert [line["seconds"] for line in charge["lines"]] == [1_800, 1_800]
        await _available(operator, account_id, "8.270000")
    finally:
        await operator.post("/v1/price-books", corrected_book(usual, half_past, {}))
    assert (await _settled(operator, account_id, "1.660000"))["revision"] == charge["revision"]
    await _available(operator, account_id, "8.340000")
    ledger = Ledger(account_id, await operator.items(f"/v1/accounts/{account_id}/journal"))
    assert (ledger.charged, ledger.total) == (1_660_000, 0)


async def test_usage_is_shown_by_project_and_by_day(operator: GatewayClient, agent: NodeAgent) -> None:
    account_id = await _open_account(operator, registered_at=instant(MORNING))
    events = [
        usage_event(
            account_id=account_id,
            resource_id=f"inst-{project}",
            start=MORNING,
            end=MORNING + minutes(90),
            quantity=quantity,
            labels={"project": project},
        )
        for project, quantity in (("clip", 2), ("llm", 4))
    ]
    await agent.report(events)
    span = {"from": instant(MORNING), "to": instant(MORNING + timedelta(days=1))}
    path = f"/v1/accounts/{account_id}/usage"

    async def by_project() -> list[tuple[str, int, int]]:
        items = await operator.items(path, **span, group_by="label:project")
        return sorted((item["labels"]["project"], item["seconds"], item["card_seconds"]) for item in items)

    expected = [("clip", 5_400, 10_800), ("llm", 5_400, 21_600)]
    assert await wait_for(by_project, lambda seen: seen == expected) == expected
    (day,) = await operator.items(path, **span, group_by="day,sku")
    assert (day["seconds"], day["card_seconds"]) == (10_800, 32_400)


async def test_usage_without_a_price_is_listed_and_not_lost(
    operator: GatewayClient, agent: NodeAgent
) -> None:
    account_id = await _open_account(operator, registered_at=instant(MORNING))
    sku = f"future-gpu-{unique_suffix()}"
    await agent.report(
        [usage_event(account_id=account_id, sku=sku, start=MORNING, end=MORNING + minutes(10))]
    )
    items = await wait_for(
        lambda: operator.items("/v1/unpriced"), lambda seen: any(item["sku"] == sku for item in seen)
    )
    (unpriced,) = [item for item in items if item["sku"] == sku]
    assert unpriced["seconds"] == 600
    balance = await operator.balance(account_id)
    assert balance["available"] == "10.000000"


async def test_a_hold_that_does_not_fit_is_refused_with_the_shortfall(operator: GatewayClient) -> None:
    account_id = await _open_account(operator, trial=False)
    await operator.post(
        f"/v1/accounts/{account_id}/top-ups", {"amount": "1.00", "channel": "wechat", "reference": "pay-1"}
    )
    wanted: JsonObject = {
        "account_id": account_id,
        "sku": "rtx-4090",
        "quantity": 1,
        "mode": "gpu",
        "purchase": "on_demand",
    }
    refused = await operator.call(
        "POST", "/v1/holds", json={**wanted, "seconds": 3_600, "reference": "start-1"}
    )
    assert refused.status_code == 402
    assert refused.headers["content-type"] == "application/problem+json"
    assert refused.json()["shortfall"] == "0.660000"

    hold = await operator.post("/v1/holds", {**wanted, "seconds": 1_800, "reference": "start-2"})
    await _available(operator, account_id, "0.170000")
    released = await operator.call("DELETE", f"/v1/holds/{hold['hold_id']}")
    assert released.status_code in (200, 204)
    await _available(operator, account_id, "1.000000")


async def test_owing_500_and_paying_10_leaves_490_owed(operator: GatewayClient, agent: NodeAgent) -> None:
    account_id = await _open_account(operator, trial=False, registered_at=instant(MORNING))
    # 500.00 is 1,000,000 GB of disk for an hour.
    await agent.report(
        [
            usage_event(
                account_id=account_id,
                sku="disk-ssd",
                quantity=1_000_000,
                start=MORNING,
                end=MORNING + minutes(60),
            )
        ]
    )
    balance = await wait_for(
        lambda: operator.balance(account_id), lambda seen: bool(seen["debt"] == "500.000000")
    )
    assert (balance["debt"], balance["standing"]) == ("500.000000", "exhausted")
    await operator.post(
        f"/v1/accounts/{account_id}/top-ups", {"amount": "10", "channel": "bank", "reference": "pay-1"}
    )
    balance = await _available(operator, account_id, "-490.000000")
    assert (balance["cash"], balance["debt"]) == ("0.000000", "490.000000")
    ledger = Ledger(account_id, await operator.items(f"/v1/accounts/{account_id}/journal"))
    assert (ledger.debt, ledger.charged, ledger.total) == (490_000_000, 500_000_000, 0)


async def test_a_write_repeated_with_its_key_is_done_once(operator: GatewayClient) -> None:
    account_id = await _open_account(operator, trial=False)
    path = f"/v1/accounts/{account_id}/top-ups"
    body = {"amount": "25.50", "channel": "wechat", "reference": f"pay-{unique_suffix()}"}
    key = {"idempotency-key": unique_suffix()}
    first = await operator.call("POST", path, json=body, headers=key)
    again = await operator.call("POST", path, json=body, headers=key)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    other = await operator.call("POST", path, json={**body, "amount": "26"}, headers=key)
    assert other.status_code == 409
    await _available(operator, account_id, "25.500000")


async def test_a_reference_is_booked_once_also_without_a_key(operator: GatewayClient) -> None:
    account_id = await _open_account(operator, trial=False)
    path = f"/v1/accounts/{account_id}/top-ups"
    body = {"amount": "25.50", "channel": "wechat", "reference": "pay-1"}
    for _ in range(2):
        response = await operator.call("POST", path, json=body)
        assert response.status_code in (200, 201)
    conflict = await operator.call("POST", path, json={**body, "amount": "26"})
    assert conflict.status_code == 409
    await _available(operator, account_id, "25.500000")


async def test_the_trial_is_granted_once_whatever_is_repeated(operator: GatewayClient) -> None:
    account_id = f"journey-{unique_suffix()}"
    body = {"account_id": account_id, "name": "Xingyu Lab", "kind": "personal"}
    for _ in range(3):
        response = await operator.call("POST", "/v1/accounts", json=body)
        assert response.status_code in (200, 201, 409)
    await _available(operator, account_id, "10.000000")

"""May this start? Pricing says what the time costs, the wallet whether that is there (R17)."""

from dataclasses import dataclass, replace
from datetime import timedelta
from http import HTTPStatus

import msgspec

from services.gateway.clients.pricing import PricingClient, quoted_lines
from services.gateway.clients.wallet import WalletClient
from services.gateway.domain.answers import PROBLEM_JSON, Answer
from services.gateway.domain.holds import price_of_stretch
from shared.money import format_cny
from shared.time import Clock, format_instant


@dataclass(frozen=True)
class HoldWanted:
    account_id: str
    sku: str
    quantity: int
    mode: str
    purchase: str
    seconds: int
    reference: str


async def place_hold(
    wanted: HoldWanted, *, pricing: PricingClient, wallet: WalletClient, clock: Clock
) -> Answer:
    """The wallet's answer, or pricing's if it has no price for this. Raises Unavailable."""
    start = clock()
    item = {
        "sku": wanted.sku,
        "quantity": wanted.quantity,
        "mode": wanted.mode,
        "purchase": wanted.purchase,
        "start": format_instant(start),
        "end": format_instant(start + timedelta(seconds=wanted.seconds)),
    }
    quote = await pricing.quote([item])
    if quote.status != HTTPStatus.OK:
        return _of_a_hold(quote)
    hold = {
        "account_id": wanted.account_id,
        "sku": wanted.sku,
        "quantity": wanted.quantity,
        "mode": wanted.mode,
        "purchase": wanted.purchase,
        "seconds": wanted.seconds,
        "reference": wanted.reference,
        "amount": format_cny(price_of_stretch(wanted.quantity, quoted_lines(quote))),
    }
    return await wallet.place_hold(wanted.account_id, hold)


def _of_a_hold(quote: Answer) -> Answer:
    """Pricing's problem in the words of what the caller sent: a hold has no items."""
    if quote.media_type != PROBLEM_JSON:
        return quote
    problem = msgspec.json.decode(quote.body, type=dict[str, object])
    for name in ("field", "detail"):
        if name in problem:
            problem[name] = str(problem[name]).replace("items[0].", "")
    return replace(quote, body=msgspec.json.encode({**problem, "instance": "/v1/holds"}))

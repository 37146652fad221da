"""May this start? Pricing says what the time costs, the wallet whether that is there (R17)."""

from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus

from services.gateway.clients.pricing import PricingClient, quoted_lines
from services.gateway.clients.wallet import WalletClient
from services.gateway.domain.answers import Answer
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
        return quote
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

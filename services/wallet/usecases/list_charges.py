"""Why this amount: an account's charges with their lines and who paid them (R7)."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from services.wallet.storage import charges
from services.wallet.storage.charges import ChargeListed, PaidBy
from services.wallet.usecases.context import Context, retried
from shared.contracts.facts import ChargeLine, Unpriced

log = logging.getLogger(__name__)
_decode_lines = msgspec.json.Decoder(list[ChargeLine]).decode
_decode_unpriced = msgspec.json.Decoder(list[Unpriced]).decode


@dataclass(frozen=True, slots=True)
class ChargeExplained:
    charge: ChargeListed
    lines: Sequence[ChargeLine]
    unpriced: Sequence[Unpriced]
    paid_by: Sequence[PaidBy]


@retried
async def list_charges(
    context: Context,
    account_id: str,
    first: datetime,
    until: datetime,
    resource_id: str | None,
    after: tuple[datetime, str] | None,
    limit: int,
) -> list[ChargeExplained]:
    """Of hours that begin in [first, until), by hour and resource, those after `after`."""
    async with context.database.snapshot() as connection:
        listed = await charges.page(
            connection, account_id, first, until, resource_id, after or (first, ""), limit
        )
        payers = await charges.paid_by(connection, account_id, listed) if listed else {}
    return [
        ChargeExplained(
            charge,
            *_explained(account_id, charge),
            payers.get((charge.hour, charge.resource_id), ()),
        )
        for charge in listed
    ]


def _explained(account_id: str, charge: ChargeListed) -> tuple[Sequence[ChargeLine], Sequence[Unpriced]]:
    """Lines are checked before they are stored; a row that is odd all the same must not hide the others."""
    try:
        lines = _decode_lines(charge.lines)
        return lines, [] if charge.unpriced is None else _decode_unpriced(charge.unpriced)
    except msgspec.MsgspecError as error:
        log.error("%s %s of %s cannot be explained: %s", account_id, charge.resource_id, charge.hour, error)  # noqa: TRY400 - the row is at fault, not the code
        return [], []

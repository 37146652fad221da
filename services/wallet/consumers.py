"""Kafka in: a batch of records -> one use case. The wallet tells its own news through the outbox."""

from collections.abc import Sequence

from services.wallet.domain.charges import Charge, InvalidFact, decode_charge, fold
from services.wallet.domain.openings import Opening, decode_opening
from services.wallet.usecases.apply_charges import apply_charges
from services.wallet.usecases.context import Context
from services.wallet.usecases.open_accounts import open_accounts
from shared.kafka import BatchHandler, BatchOutcome, Record, Rejected

INVALID_FACT = "invalid_fact"


def charges_handler(context: Context) -> BatchHandler:
    """charge.rated.v1: the newest of each resource-hour is applied."""

    async def handle(records: Sequence[Record]) -> BatchOutcome:
        charges: list[Charge] = []
        rejected: list[Rejected] = []
        for record in records:
            try:
                charges.append(decode_charge(record.value or b""))
            except InvalidFact as error:
                rejected.append(Rejected(record, INVALID_FACT, str(error)))
        await apply_charges(context, fold(charges))
        return BatchOutcome(rejected=rejected)

    return handle


def openings_handler(context: Context) -> BatchHandler:
    """account.opened.v1: the first of each account opens its wallet."""

    async def handle(records: Sequence[Record]) -> BatchOutcome:
        openings: list[Opening] = []
        rejected: list[Rejected] = []
        for record in records:
            try:
                openings.append(decode_opening(record.value or b""))
            except InvalidFact as error:
                rejected.append(Rejected(record, INVALID_FACT, str(error)))
        await open_accounts(context, openings)
        return BatchOutcome(rejected=rejected)

    return handle

"""account.standing.v1 in: each batch is one use case, and nothing is told on."""

from collections.abc import Sequence

import msgspec

from services.gateway.usecases.record_standings import record_standings
from shared.contracts.facts import AccountStanding
from shared.database import Database
from shared.ids import is_id
from shared.kafka import BatchOutcome, Record, Rejected

_decoder = msgspec.json.Decoder(AccountStanding)


class StandingConsumer:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def __call__(self, batch: Sequence[Record]) -> BatchOutcome:
        told: list[AccountStanding] = []
        rejected: list[Rejected] = []
        for record in batch:
            if record.value is None:
                continue
            try:
                fact = _decoder.decode(record.value)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                rejected.append(Rejected(record, "malformed_standing", str(error)))
                continue
            if is_id(fact.account_id):
                told.append(fact)
            else:
                rejected.append(Rejected(record, "malformed_standing", "account_id is not an id"))
        await record_standings(told, database=self._database)
        return BatchOutcome(rejected=rejected)

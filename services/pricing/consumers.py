"""Kafka in: metered facts, rated batch by batch into charges."""

from collections.abc import Sequence

import msgspec

from services.pricing.usecases.charge_message import charge_message
from services.pricing.usecases.rate_usage import RateUsage
from shared.contracts.facts import UsageMetered
from shared.kafka import BatchOutcome, Record, Rejected

INVALID_FACT = "invalid_fact"

_decoder = msgspec.json.Decoder(UsageMetered)


class UsageMeteredConsumer:
    def __init__(self, rate_usage: RateUsage) -> None:
        self._rate_usage = rate_usage

    async def handle(self, records: Sequence[Record]) -> BatchOutcome:
        """One charge per resource-hour of the batch, from its newest revision."""
        rejected: list[Rejected] = []
        newest: dict[tuple[str, str, str], tuple[Record, UsageMetered]] = {}
        for record in records:
            try:
                fact = _decoder.decode(record.value or b"")
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                rejected.append(Rejected(record, INVALID_FACT, str(error)))
                continue
            key = (fact.account_id, fact.resource_id, fact.hour)
            before = newest.get(key)
            if before is None or before[1].revision <= fact.revision:
                newest[key] = (record, fact)
        kept = list(newest.values())
        rated = await self._rate_usage([fact for _, fact in kept])
        rejected.extend(Rejected(kept[index][0], INVALID_FACT, detail) for index, detail in rated.refused)
        return BatchOutcome([charge_message(charge) for charge in rated.charges], rejected)

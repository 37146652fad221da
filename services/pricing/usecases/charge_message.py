"""How a rated fact is told: keyed for compaction by its hour, partitioned by its account (DESIGN 2)."""

from shared.contracts.facts import ChargeRated, encode_fact, fact_key
from shared.contracts.topics import CHARGE_RATED
from shared.kafka import Message


def charge_message(charge: ChargeRated) -> Message:
    return Message(
        CHARGE_RATED.name,
        fact_key(charge.account_id, charge.resource_id, charge.hour),
        encode_fact(charge),
        charge.account_id.encode(),
    )

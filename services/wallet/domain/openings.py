"""account.opened facts, checked at the door."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from services.wallet.domain.charges import InvalidFact
from shared.contracts.facts import AccountOpened
from shared.ids import is_id
from shared.money import AMOUNT_MICRO_MAX
from shared.time import parse_instant

TRIAL_DAYS_MAX: Final = 3650
NAME_CHARACTERS_MAX: Final = 200

_decode = msgspec.json.Decoder(AccountOpened).decode


@dataclass(frozen=True, slots=True)
class Opening:
    """`trial_amount` in micro-yuan, 0 for none; valid for `trial_days` from `registered_at`."""

    account_id: str
    name: str
    kind: str
    registered_at: datetime
    trial_amount: int
    trial_days: int


def decode_opening(value: bytes) -> Opening:
    """Raises InvalidFact with the reason."""
    try:
        fact = _decode(value)
        registered_at = parse_instant(fact.registered_at)
        registered_at + timedelta(days=TRIAL_DAYS_MAX)
    except (msgspec.MsgspecError, ValueError, OverflowError) as error:
        raise InvalidFact(str(error)) from None
    if not is_id(fact.account_id):
        raise InvalidFact("account_id is not an id")
    if len(fact.name) > NAME_CHARACTERS_MAX or "\x00" in fact.name:
        raise InvalidFact(f"name is longer than {NAME_CHARACTERS_MAX} characters or has a NUL")
    if not 0 <= fact.trial_amount <= AMOUNT_MICRO_MAX or not 0 <= fact.trial_days <= TRIAL_DAYS_MAX:
        raise InvalidFact("the trial credit is out of range")
    return Opening(fact.account_id, fact.name, fact.kind, registered_at, fact.trial_amount, fact.trial_days)

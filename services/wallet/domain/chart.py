"""The chart of accounts of the journal (R10).

| account | kind | grows by | what it is |
|---|---|---|---|
| `provider:<channel>` | asset | debit | cash that a payment channel took in for us |
| `lot:<lot_id>` | liability | credit | what a customer's lot can still pay for |
| `receivable:<account_id>` | asset | debit | usage that no lot could pay: the customer's debt (R13) |
| `revenue` | income | credit | usage that has been settled |
| `promotion` | expense | debit | credit given away: trials, vouchers, compensation |
| `breakage` | income | credit | promotional credit that ended unspent (R15) |

A hold has no transfer: it reserves, it does not move.
"""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

REVENUE: Final = "revenue"
PROMOTION: Final = "promotion"
BREAKAGE: Final = "breakage"


def provider(channel: str) -> str:
    return f"provider:{channel}"


def lot(lot_id: UUID) -> str:
    return f"lot:{lot_id}"


def receivable(account_id: str) -> str:
    return f"receivable:{account_id}"


@dataclass(frozen=True, slots=True)
class Transfer:
    """Moves `amount_micro` > 0 from one ledger account to another; debits equal credits by construction."""

    debit: str
    credit: str
    amount_micro: int

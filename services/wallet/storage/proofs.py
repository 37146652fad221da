"""What must be true of the whole database at any instant, each as a query that lists where it is not."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

FINDINGS_MAX: Final = 100

# Each gives (account_id, what, stored, computed).
PROOFS: Final[Mapping[str, str]] = {
    "cash_is_its_lots": """
        SELECT account_id, 'cash', cash, coalesce(lots.remaining, 0)
        FROM account LEFT JOIN (
            SELECT account_id, sum(remaining) AS remaining FROM lot WHERE kind = 'cash' GROUP BY account_id
        ) lots USING (account_id)
        WHERE cash <> coalesce(lots.remaining, 0)
    """,
    "accrued_is_its_charges": """
        SELECT account_id, 'accrued', accrued, coalesce(charges.unsettled, 0)
        FROM account LEFT JOIN (
            SELECT account_id, sum(amount - settled) AS unsettled FROM charge GROUP BY account_id
        ) charges USING (account_id)
        WHERE accrued <> coalesce(charges.unsettled, 0)
    """,
    "held_is_its_holds": """
        SELECT account_id, 'held', held, coalesce(holds.amount, 0)
        FROM account LEFT JOIN (
            SELECT account_id, sum(amount) AS amount FROM hold WHERE state = 'active' GROUP BY account_id
        ) holds USING (account_id)
        WHERE held <> coalesce(holds.amount, 0)
    """,
    "debt_is_in_the_journal": """
        SELECT account_id, 'debt', debt, coalesce(journal.owed, 0)
        FROM account LEFT JOIN (
            SELECT account_id,
                   sum(CASE WHEN debit_account LIKE 'receivable:%' THEN amount ELSE 0 END)
                   - sum(CASE WHEN credit_account LIKE 'receivable:%' THEN amount ELSE 0 END) AS owed
            FROM transfer GROUP BY account_id
        ) journal USING (account_id)
        WHERE debt <> coalesce(journal.owed, 0)
    """,
    "lots_are_in_the_journal": """
        SELECT lot.account_id, 'lot:' || lot.lot_id, lot.remaining, coalesce(journal.remaining, 0)
        FROM lot LEFT JOIN (
            SELECT account_id, ledger_account, sum(amount) AS remaining FROM (
                SELECT account_id, credit_account AS ledger_account, amount FROM transfer
                UNION ALL
                SELECT account_id, debit_account, -amount FROM transfer
            ) moves GROUP BY account_id, ledger_account
        ) journal ON journal.account_id = lot.account_id AND journal.ledger_account = 'lot:' || lot.lot_id
        WHERE lot.remaining <> coalesce(journal.remaining, 0)
    """,
    "settled_is_in_the_journal": """
        SELECT account_id, to_char(hour AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24"Z"'),
               coalesce(charges.settled, 0), coalesce(journal.revenue, 0)
        FROM (SELECT account_id, hour, sum(settled) AS settled FROM charge GROUP BY account_id, hour) charges
        FULL JOIN (
            SELECT entry.account_id, entry.hour,
                   sum(CASE WHEN credit_account = 'revenue' THEN amount
                            WHEN debit_account = 'revenue' THEN -amount ELSE 0 END) AS revenue
            FROM entry JOIN transfer USING (account_id, entry_id) WHERE entry.kind = 'settlement'
            GROUP BY entry.account_id, entry.hour
        ) journal USING (account_id, hour)
        WHERE coalesce(charges.settled, 0) <> coalesce(journal.revenue, 0)
    """,
    "settled_is_allocated": """
        SELECT account_id, resource_id, coalesce(charge.settled, 0), coalesce(paid.amount, 0)
        FROM charge FULL JOIN (
            SELECT account_id, hour, resource_id, sum(amount) AS amount FROM allocation
            GROUP BY account_id, hour, resource_id
        ) paid USING (account_id, hour, resource_id)
        WHERE coalesce(charge.settled, 0) <> coalesce(paid.amount, 0)
    """,
    "allocations_have_their_entry": """
        SELECT DISTINCT account_id, 'entry:' || entry_id, 1, 0 FROM allocation
        WHERE NOT EXISTS (
            SELECT FROM entry
            WHERE entry.account_id = allocation.account_id AND entry.entry_id = allocation.entry_id
              AND entry.hour = allocation.hour)
    """,
    "unsettled_hours_are_marked": """
        SELECT account_id, resource_id, settled, amount FROM charge
        WHERE amount <> settled AND NOT EXISTS (
            SELECT FROM unsettled_hour waiting
            WHERE waiting.account_id = charge.account_id AND waiting.hour = charge.hour)
    """,
    "commands_move_something": """
        SELECT account_id, 'entry:' || entry_id, 0, 1 FROM entry
        WHERE kind <> 'settlement' AND NOT EXISTS (
            SELECT FROM transfer
            WHERE transfer.account_id = entry.account_id AND transfer.entry_id = entry.entry_id)
    """,
}


class Finding(NamedTuple):
    """Where a proof does not hold."""

    proof: str
    account_id: str
    what: str
    stored: int
    computed: int


async def findings(connection: AsyncConnection) -> list[Finding]:
    """At most FINDINGS_MAX for each proof; none is what must be."""
    found: list[Finding] = []
    for proof, query in PROOFS.items():
        rows = await connection.execute(text(f"{query} LIMIT {FINDINGS_MAX}"))
        found += [Finding(proof, row[0], row[1], int(row[2]), int(row[3])) for row in rows]
    return found

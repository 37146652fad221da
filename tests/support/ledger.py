"""The journal of one account, added up again from its transfers (R10)."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from tests.support.reports import JsonObject

KIND_OF_ENTRY = {"trial": "trial", "grant": "promo", "top_up": "cash"}
"""What kind of lot an entry that first fills one makes."""


def micro(amount: str) -> int:
    """Micro-yuan of a decimal string, by arithmetic that is not the product's."""
    exact = Fraction(amount) * 1_000_000
    assert exact.denominator == 1, amount
    return exact.numerator


class Ledger:
    """Credit minus debit of every ledger account that the entries touch."""

    def __init__(self, account_id: str, journal: Sequence[JsonObject]) -> None:
        self._receivable = f"receivable:{account_id}"
        self._credits: Counter[str] = Counter()
        self._expired: Counter[str] = Counter()
        self._kind_of_lot: dict[str, str] = {}
        for entry in reversed(journal):
            for transfer in entry["transfers"]:
                self._book(entry, transfer)

    @property
    def charged(self) -> int:
        return self._credits["revenue"]

    @property
    def debt(self) -> int:
        return -self._credits[self._receivable]

    @property
    def total(self) -> int:
        """Zero in any ledger that balances."""
        return sum(self._credits.values())

    def in_lots(self, *kinds: str) -> int:
        return sum(self._credits[lot] for lot, kind in self._kind_of_lot.items() if kind in kinds)

    def left(self) -> dict[str, int]:
        """Per kind of lot; what expiry took counts as left, as it does in the scenarios."""
        left = {"trial": 0, "promo": 0, "cash": 0}
        for lot, kind in self._kind_of_lot.items():
            left[kind] = left.get(kind, 0) + self._credits[lot] + self._expired[lot]
        return left

    def _book(self, entry: JsonObject, transfer: JsonObject) -> None:
        amount = micro(transfer["amount"])
        debit, credit = transfer["debit_account"], transfer["credit_account"]
        assert amount > 0, entry
        assert debit != credit, entry
        self._credits[debit] -= amount
        self._credits[credit] += amount
        if credit == "breakage":
            self._expired[debit] += amount
        if credit.startswith("lot:") and credit not in self._kind_of_lot:
            self._kind_of_lot[credit] = KIND_OF_ENTRY.get(entry["kind"], "compensation")

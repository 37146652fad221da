"""Every topic, what it is keyed and partitioned by, and how it is kept."""

from typing import Final, NamedTuple


class Topic(NamedTuple):
    name: str
    compacted: bool = False
    retention_hours: int = 7 * 24

    @property
    def dead_letter(self) -> str:
        return f"{self.name}.dead-letter"


USAGE_REPORTED: Final = Topic("usage.reported.v1")
USAGE_METERED: Final = Topic("usage.metered.v1", compacted=True)
CHARGE_RATED: Final = Topic("charge.rated.v1", compacted=True)
ACCOUNT_OPENED: Final = Topic("account.opened.v1", compacted=True)
ACCOUNT_STANDING: Final = Topic("account.standing.v1", compacted=True)

ALL_TOPICS: Final = (USAGE_REPORTED, USAGE_METERED, CHARGE_RATED, ACCOUNT_OPENED, ACCOUNT_STANDING)
DEAD_LETTER_RETENTION_HOURS: Final = 30 * 24

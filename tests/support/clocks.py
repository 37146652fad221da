"""Time as tests want it."""

from dataclasses import dataclass
from datetime import datetime


@dataclass
class SettableClock:
    """A shared.time.Clock that stands still until it is set."""

    now: datetime

    def __call__(self) -> datetime:
        return self.now

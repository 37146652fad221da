"""What every use case is given, and how one that the database interrupted is tried again."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from services.wallet.domain.standing import StandingLimits
from services.wallet.settings import WalletSettings
from shared.database import Database, is_transient
from shared.errors import Unavailable
from shared.ids import IdSource
from shared.time import Clock

P = ParamSpec("P")
T = TypeVar("T")

ATTEMPTS_MAX: Final = 3
ATTEMPT_WAIT_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Context:
    database: Database
    clock: Clock
    new_id: IdSource
    settings: WalletSettings

    @property
    def limits(self) -> StandingLimits:
        return StandingLimits(self.settings.runway_seconds_low, self.settings.available_micro_low)


def retried(usecase: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Try again when the connection is lost, also in COMMIT: every command can run twice (R19).

    Raises Unavailable when the database stays away.
    """

    @wraps(usecase)
    async def patient(*args: P.args, **kwargs: P.kwargs) -> T:
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                return await usecase(*args, **kwargs)
            except Exception as error:
                if not is_transient(error):
                    raise
                if attempt == ATTEMPTS_MAX:
                    raise Unavailable("the ledger's database does not answer; try again") from error
                await asyncio.sleep(ATTEMPT_WAIT_SECONDS * attempt)
        raise AssertionError("unreachable")

    return patient

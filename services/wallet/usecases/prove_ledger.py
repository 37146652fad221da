"""Do accounts, lots, charges and journal agree?"""

from services.wallet.storage import proofs
from services.wallet.storage.proofs import Finding
from services.wallet.usecases.context import Context


async def prove_ledger(context: Context) -> list[Finding]:
    """Where they do not; nothing found is the only right answer."""
    async with context.database.snapshot() as connection:
        return await proofs.findings(connection)

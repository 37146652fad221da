"""python -m services.wallet [api|worker|all|migrate]"""

from pathlib import Path
from typing import TYPE_CHECKING

from services.wallet.settings import WalletSettings
from shared.commands import run_command
from shared.settings import KafkaSettings

if TYPE_CHECKING:
    from shared.serving import Service


async def compose(settings: WalletSettings, kafka: KafkaSettings) -> "Service":
    from services.wallet import app  # noqa: PLC0415 - a migration starts without the service's rooms

    return await app.compose(settings, kafka)


if __name__ == "__main__":
    run_command("wallet", Path(__file__).parent, WalletSettings, compose)

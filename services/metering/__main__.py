"""python -m services.metering [api|worker|all|migrate]"""

from pathlib import Path
from typing import TYPE_CHECKING

from services.metering.settings import MeteringSettings
from shared.commands import run_command
from shared.settings import KafkaSettings

if TYPE_CHECKING:
    from shared.serving import Service


async def compose(settings: MeteringSettings, kafka: KafkaSettings) -> "Service":
    from services.metering import app  # noqa: PLC0415 - a migration starts without the service's rooms

    return await app.compose(settings, kafka)


if __name__ == "__main__":
    run_command("metering", Path(__file__).parent, MeteringSettings, compose)

"""python -m services.metering [api|worker|all|migrate]"""

import argparse
from functools import partial
from pathlib import Path

from services.metering.app import compose
from services.metering.settings import MeteringSettings
from shared.database import migrate
from shared.serving import ROLES, run_service
from shared.settings import KafkaSettings


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m services.metering")
    parser.add_argument("role", nargs="?", choices=[*ROLES, "migrate"], default="all")
    role = parser.parse_args().role
    settings = MeteringSettings()
    if role == "migrate":
        migrate(Path(__file__).parent, settings.migration_url or settings.database_url)
    else:
        run_service("metering", settings, partial(compose, settings, KafkaSettings()), role)


if __name__ == "__main__":
    main()

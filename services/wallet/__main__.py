"""python -m services.wallet [api|worker|all|migrate]"""

import argparse
import sys
from pathlib import Path

from services.wallet.app import NAME, compose
from services.wallet.settings import WalletSettings
from shared.database import migrate
from shared.serving import ROLES, run_service
from shared.settings import KafkaSettings
from shared.telemetry import setup_logging


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m services.wallet")
    parser.add_argument("role", nargs="?", default="all", choices=[*ROLES, "migrate"])
    role = parser.parse_args().role
    settings = WalletSettings()
    if role == "migrate":
        if settings.migration_url is None:
            sys.exit("wallet: migrate needs WALLET_MIGRATION_URL, the database as its owner")
        setup_logging()
        migrate(Path(__file__).parent, settings.migration_url)
    else:
        run_service(NAME, settings, lambda: compose(settings, KafkaSettings()), role)


if __name__ == "__main__":
    main()

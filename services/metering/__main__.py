"""python -m services.metering [api|worker|all|migrate]"""

import argparse
import sys
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from services.metering.app import compose
from services.metering.settings import MeteringSettings
from shared.database import migrate
from shared.serving import ROLES, run_service
from shared.settings import KafkaSettings


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m services.metering", description=__doc__)
    parser.add_argument("role", nargs="?", choices=[*ROLES, "migrate"], default="all")
    role = parser.parse_args().role
    try:
        settings, kafka = MeteringSettings(), KafkaSettings()
    except ValidationError as error:
        first = error.errors()[0]
        sys.exit(f"metering: setting {'.'.join(map(str, first['loc']))}: {first['msg']}")
    if role == "migrate":
        if settings.migration_url is None:
            sys.exit("metering: migrate needs METERING_MIGRATION_URL, the database's owner")
        migrate(Path(__file__).parent, settings.migration_url)
    else:
        run_service("metering", settings, partial(compose, settings, kafka), role)


if __name__ == "__main__":
    main()

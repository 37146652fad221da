"""python -m services.pricing [api|worker|all|migrate]"""

import argparse
import sys
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from services.pricing.app import compose
from services.pricing.settings import PricingSettings
from shared.database import migrate
from shared.serving import ROLES, run_service
from shared.settings import KafkaSettings


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m services.pricing", description=__doc__)
    parser.add_argument("role", nargs="?", default="all", choices=[*ROLES, "migrate"])
    role = parser.parse_args().role
    try:
        settings, kafka = PricingSettings(), KafkaSettings()
    except ValidationError as error:
        first = error.errors()[0]
        sys.exit(f"pricing: setting {'.'.join(map(str, first['loc']))}: {first['msg']}")
    if role == "migrate":
        if settings.migration_url is None:
            sys.exit("pricing: migrate needs PRICING_MIGRATION_URL, the database's owner")
        migrate(Path(__file__).parent, settings.migration_url)
    else:
        run_service("pricing", settings, partial(compose, settings, kafka), role)


if __name__ == "__main__":
    main()

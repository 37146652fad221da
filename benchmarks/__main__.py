"""`python -m benchmarks [--quick] [NAME ...]`: measure the stages and the way through all of them.

Without POSTGRES_URL and KAFKA_BOOTSTRAP it starts a PostgreSQL and a broker of its own for the time it runs.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

import uvloop

from benchmarks import door, freshness, stages
from benchmarks.results import Result, print_table, write_json
from benchmarks.stages import Bench, bench_from_environment
from shared.serving import calm_garbage_collection
from shared.time import system_clock

REPOSITORY: Final = Path(__file__).resolve().parents[1]
QUICK_SCALE: Final = 0.1

MEASUREMENTS: Final[Mapping[str, Callable[[Bench], Awaitable[Result]]]] = {
    "freshness": freshness.idle,
    "freshness-5000": freshness.under_5000,
    "freshness-10000": freshness.under_10000,
    "metering-1": stages.metering_one_report_per_row,
    "metering-6": stages.metering_six_reports_per_row,
    "pricing": stages.pricing_kafka_to_kafka,
    "rating": stages.pricing_pure_rating,
    "wallet": stages.wallet_charges,
    "settlement": stages.wallet_settlement,
    "ingest": door.http_ingest,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MEASUREMENTS))
    parser.add_argument("--quick", action="store_true", help="a tenth of the load")
    parser.add_argument("--save-as", default="last.local", help="name of the JSON file in benchmarks/results")
    options = parser.parse_args()
    unknown = set(options.names) - set(MEASUREMENTS)
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    if not {"POSTGRES_URL", "KAFKA_BOOTSTRAP"} <= set(os.environ):
        return _on_an_own_stack(sys.argv[1:])
    names = options.names or list(MEASUREMENTS)
    results = uvloop.run(_measure(names, QUICK_SCALE if options.quick else 1.0))
    print_table(results)
    path = write_json(results, options.save_as, system_clock())
    print(f"\nThe same for machines: {path.relative_to(REPOSITORY)}")
    return 0


async def _measure(names: list[str], scale: float) -> list[Result]:
    bench = bench_from_environment(scale)
    results = []
    for name in names:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        calm_garbage_collection()
        results.append(await MEASUREMENTS[name](bench))
    return results


def _on_an_own_stack(arguments: list[str]) -> int:
    stack = [sys.executable, str(REPOSITORY / "deploy" / "local.py"), "run", "--ephemeral", "--no-services"]
    command = [*stack, "--", sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

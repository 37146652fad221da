"""Numbers as people read them and as machines keep them."""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final

RESULTS_DIRECTORY: Final = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True)
class Result:
    """`value` in `unit`; `wanted` is the number of DESIGN 7, at least (or, with `at_most`, at most)."""

    name: str
    value: float
    unit: str
    wanted: float | None = None
    at_most: bool = False
    details: Mapping[str, float | int | str] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        if self.wanted is None:
            return ""
        reached = self.value <= self.wanted if self.at_most else self.value >= self.wanted
        return "reached" if reached else "MISSED"

    @property
    def wanted_text(self) -> str:
        return "" if self.wanted is None else f"{'<=' if self.at_most else '>='} {_number(self.wanted)}"


def print_table(results: Sequence[Result]) -> None:
    rows = [("measured", "value", "unit", "wanted", "")]
    rows += [
        (result.name, _number(result.value), result.unit, result.wanted_text, result.verdict)
        for result in results
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for number, (name, value, unit, wanted, verdict) in enumerate(rows):
        cells = [f"{name:<{widths[0]}}", f"{value:>{widths[1]}}", f"{unit:<{widths[2]}}"]
        print("  ".join([*cells, f"{wanted:>{widths[3]}}", verdict]))
        if number and results[number - 1].details:
            told = ", ".join(f"{key} {_told(of)}" for key, of in results[number - 1].details.items())
            print(f"{'':<{widths[0]}}    {told}")


def write_json(results: Sequence[Result], name: str, at: datetime) -> Path:
    RESULTS_DIRECTORY.mkdir(exist_ok=True)
    path = RESULTS_DIRECTORY / f"{name}.json"
    document = {
        "at": at.isoformat(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "results": [{**asdict(result), "verdict": result.verdict} for result in results],
    }
    path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def _told(value: float | str) -> str:
    return value if isinstance(value, str) else _number(value)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"

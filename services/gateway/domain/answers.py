"""An HTTP answer as a value: what a sibling said, what is kept for a replay, what goes out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

JSON: Final = "application/json"
PROBLEM_JSON: Final = "application/problem+json"


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    media_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    kept_body: bytes | None = None
    """What a replay gives instead of `body`, where that holds a secret, which is told once."""

"""A price book on record."""

from dataclasses import dataclass
from datetime import datetime

from services.pricing.domain.document import BookDocument


@dataclass(frozen=True, slots=True)
class PublishedBook:
    """`version` counts from 1 in the order of publication."""

    version: int
    published_at: datetime
    document: BookDocument

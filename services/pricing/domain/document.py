"""The document of a price book (DESIGN 4): its shape and the grammar of each field.

What it means as a whole (that names are known, chains end, times are not past) is checked in `book.py`.
"""

import re
from decimal import Decimal
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from shared.ids import ID_PATTERN, is_id
from shared.money import MICRO_PER_YUAN, parse_cny
from shared.schemas import Instant

SKUS_MAX: Final = 1_000
RULES_MAX: Final = 100
PRICE_MICRO_MAX: Final = 10_000 * MICRO_PER_YUAN
RATIO_MAX: Final = 10_000

_RATIO = re.compile(r"\d{1,5}(\.\d{1,6})?", re.ASCII)
_LOCAL_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d(:[0-5]\d)?", re.ASCII)


def _price(text: str) -> str:
    if not 0 <= parse_cny(text) <= PRICE_MICRO_MAX:
        raise ValueError("a price is from 0 to 10000")
    return text


def _ratio(text: str) -> str:
    if _RATIO.fullmatch(text) is None or not 0 < Decimal(text) <= RATIO_MAX:
        raise ValueError('a ratio is a decimal string above 0 with at most six places, such as "0.72"')
    return text


def _factor(text: str) -> str:
    if _RATIO.fullmatch(text) is None or not 0 < Decimal(text) <= 1:
        raise ValueError('a factor is a decimal string in (0, 1] with at most six places, such as "0.50"')
    return text


def _local_time(text: str) -> str:
    if _LOCAL_TIME.fullmatch(text) is None:
        raise ValueError('a local time is "HH:MM" or "HH:MM:SS", from 00:00 to 23:59:59')
    return text


def _id(text: str) -> str:
    if not is_id(text):
        raise ValueError(f"a name matches {ID_PATTERN}")
    return text


Price = Annotated[str, AfterValidator(_price), Field(examples=["1.66"])]
Ratio = Annotated[str, AfterValidator(_ratio), Field(examples=["0.72"])]
FactorText = Annotated[str, AfterValidator(_factor), Field(examples=["0.50"])]
LocalTime = Annotated[str, AfterValidator(_local_time), Field(examples=["23:00"])]
Name = Annotated[str, AfterValidator(_id), Field(examples=["rtx-4090"])]
Label = Annotated[str, Field(min_length=1, max_length=64)]
LabelValue = Annotated[str, Field(max_length=64)]
Kind = Literal["gpu", "app", "storage"]
Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


class _Document(BaseModel):
    # A misspelt field would change prices in silence: nothing unknown is let in, nothing is converted.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class PriceOfDocument(_Document):
    """The price is `ratio` times the price of another sku of the book, which may itself be derived."""

    sku: Name
    ratio: Ratio


class SkuDocument(_Document):
    """Exactly one of `price` (CNY, tax included, for one `unit` over one `per`) and `price_of` is given."""

    sku: Name
    name: Annotated[str, Field(min_length=1, max_length=128)]
    kind: Kind
    unit: Annotated[str, Field(min_length=1, max_length=32, examples=["card"])]
    per: Literal["hour", "day"]
    price: Price | None = None
    price_of: PriceOfDocument | None = None
    memory_gib: Annotated[int, Field(ge=1, le=1_000_000)] | None = None


class WhenDocument(_Document):
    """Everything named must hold. `local_time` is half-open and wraps midnight (R4); `weekdays` and
    `local_time` look at the local time of the second; every label named must have the value named.
    """

    purchase: Literal["on_demand", "night_auction"] | None = None
    mode: Literal["gpu", "no_gpu"] | None = None
    kinds: Annotated[list[Kind], Field(min_length=1)] | None = None
    skus: Annotated[list[Name], Field(min_length=1, max_length=SKUS_MAX)] | None = None
    local_time: Annotated[list[LocalTime], Field(min_length=2, max_length=2)] | None = None
    weekdays: Annotated[list[Weekday], Field(min_length=1, max_length=7)] | None = None
    labels: Annotated[dict[Label, LabelValue], Field(min_length=1, max_length=16)] | None = None


class RuleDocument(_Document):
    rule: Name
    factor: FactorText
    when: WhenDocument


class TrialCreditDocument(_Document):
    amount: Price
    days: Annotated[int, Field(ge=1, le=3650)]


class BookDocument(_Document):
    """A price book, whole: what is not in it has no price. Rules multiply, in their order."""

    effective_from: Instant
    time_zone: Annotated[str, Field(min_length=1, max_length=64, examples=["Asia/Shanghai"])]
    currency: Literal["CNY"]
    correction: bool = False
    skus: Annotated[list[SkuDocument], Field(min_length=1, max_length=SKUS_MAX)]
    rules: Annotated[list[RuleDocument], Field(max_length=RULES_MAX)] = []
    trial_credit: TrialCreditDocument | None = None

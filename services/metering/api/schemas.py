"""The usage query, and requests to tell facts again, on the wire."""

from datetime import datetime
from typing import Self

from pydantic import BaseModel, ConfigDict, Field

from services.metering.domain.republishing import Republication
from services.metering.domain.usage import (
    ByField,
    ByLabel,
    ByTime,
    GroupUsage,
    UsageQuery,
    bucket_label,
)
from services.metering.usecases.summarize_usage import UsagePage
from shared.schemas import Instant, ReferenceField
from shared.time import from_epoch


class UsageItem(BaseModel):
    """One group: the fields that `group_by` names, and what was used. Fields not asked for are left out."""

    start: Instant | None = Field(default=None, description="First instant of the hour, day or month.")
    hour: str | None = Field(default=None, examples=["2026-03-10T15:00:00+08:00"])
    day: str | None = Field(default=None, examples=["2026-03-10"])
    month: str | None = Field(default=None, examples=["2026-03"])
    sku: str | None = Field(default=None, examples=["rtx-4090"])
    mode: str | None = Field(default=None, examples=["gpu"])
    purchase: str | None = Field(default=None, examples=["on_demand"])
    resource: str | None = Field(default=None, examples=["inst-8f2c"])
    labels: dict[str, str | None] | None = Field(
        default=None, description="The labels asked for; null where the usage has no such label."
    )
    seconds: int = Field(description="Seconds in use, summed over resources.", examples=[3600])
    card_seconds: int = Field(
        description="Each of these seconds times the quantity then in use (cards, or GB).", examples=[28800]
    )

    @classmethod
    def of(cls, usage: GroupUsage, query: UsageQuery) -> Self:
        fields: dict[str, str | datetime] = {}
        labels: dict[str, str | None] = {}
        position = iter(usage.position)
        for group in query.groups:
            match group:
                case ByTime(unit):
                    bucket = int(next(position))
                    fields["start"] = from_epoch(bucket)
                    fields[unit] = bucket_label(bucket, unit, query.zone)
                case ByField(field):
                    fields[field] = str(next(position))
                case ByLabel(key):
                    is_absent, value = next(position), str(next(position))
                    labels[key] = None if is_absent else value
        return cls.model_validate(
            {
                **fields,
                **({"labels": labels} if labels else {}),
                "seconds": usage.seconds,
                "card_seconds": usage.card_seconds,
            }
        )


class UsageList(BaseModel):
    items: list[UsageItem]
    next_cursor: str | None

    @classmethod
    def of(cls, page: UsagePage) -> Self:
        return cls(
            items=[UsageItem.of(usage, page.query) for usage in page.groups], next_cursor=page.next_cursor
        )


class RepublishIn(BaseModel):
    """Which facts to tell again: of every hour that [from, to) touches."""

    model_config = ConfigDict(extra="forbid")

    reference: ReferenceField
    from_: Instant = Field(alias="from")
    to: Instant | None = Field(default=None, description="Up to the newest hour, if left out.")


class ToldUpTo(BaseModel):
    account_id: str
    resource_id: str
    hour: Instant


class RepublishOut(BaseModel):
    """`from` and `to` are whole hours; `position` is the last resource-hour dealt with."""

    model_config = ConfigDict(populate_by_name=True)

    reference: str
    from_: Instant = Field(alias="from")
    to: Instant | None
    requested_at: Instant
    position: ToldUpTo | None
    hours_told: int = Field(description="Resource-hours told so far; a repeated page counts once.")
    finished_at: Instant | None

    @classmethod
    def of(cls, republication: Republication) -> Self:
        position = None
        if republication.position is not None:
            account_id, resource_id, hour = republication.position
            position = ToldUpTo(account_id=account_id, resource_id=resource_id, hour=from_epoch(hour))
        return cls(
            reference=republication.reference,
            from_=republication.hours.first_hour,
            to=republication.hours.until_hour,
            requested_at=republication.requested_at,
            position=position,
            hours_told=republication.hours_told,
            finished_at=republication.finished_at,
        )


class RepublishList(BaseModel):
    items: list[RepublishOut]
    next_cursor: str | None

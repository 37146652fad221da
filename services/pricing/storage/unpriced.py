"""unpriced_usage: the newest metered fact of each resource-hour that has seconds without a price.

Every statement takes its rows in the order of their key, so that two writers cannot deadlock.
"""

from collections.abc import Sequence
from datetime import datetime

import msgspec
from sqlalchemy import text
from sqlalchemy.engine import Row
from sqlalchemy.ext.asyncio import AsyncConnection

from services.pricing.domain.unpriced import UnpricedSeconds, UnpricedUsage
from shared.contracts.facts import Unpriced, UsageMetered, encode_fact
from shared.time import from_epoch, parse_epoch

Key = tuple[str, str, datetime]
"""account_id, resource_id, hour."""

_KEEP = text(
    """
    INSERT INTO unpriced_usage AS kept (account_id, resource_id, hour, revision, price_book, unpriced, fact)
    SELECT account_id, resource_id, hour, revision, price_book,
           CAST(unpriced AS jsonb), CAST(fact AS jsonb)
    FROM unnest(CAST(:account_ids AS text[]), CAST(:resource_ids AS text[]), CAST(:hours AS timestamptz[]),
                CAST(:revisions AS bigint[]), CAST(:price_books AS bigint[]),
                CAST(:unpriced AS text[]), CAST(:facts AS text[]))
         AS news (account_id, resource_id, hour, revision, price_book, unpriced, fact)
    ORDER BY account_id, resource_id, hour
    ON CONFLICT (account_id, resource_id, hour) DO UPDATE
    SET revision = excluded.revision, price_book = excluded.price_book,
        unpriced = excluded.unpriced, fact = excluded.fact
    WHERE (kept.revision, kept.price_book) < (excluded.revision, excluded.price_book)
    """
)
_FORGET = text(
    """
    WITH priced AS MATERIALIZED (
        SELECT kept.account_id, kept.resource_id, kept.hour
        FROM unpriced_usage AS kept
        JOIN unnest(CAST(:account_ids AS text[]), CAST(:resource_ids AS text[]),
                    CAST(:hours AS timestamptz[]), CAST(:revisions AS bigint[]))
             AS news (account_id, resource_id, hour, revision) USING (account_id, resource_id, hour)
        WHERE kept.revision <= news.revision
        ORDER BY kept.account_id, kept.resource_id, kept.hour
        FOR UPDATE OF kept
    )
    DELETE FROM unpriced_usage USING priced
    WHERE unpriced_usage.account_id = priced.account_id
      AND unpriced_usage.resource_id = priced.resource_id
      AND unpriced_usage.hour = priced.hour
    """
)
_RENEW = text(
    """
    WITH news AS MATERIALIZED (
        SELECT kept.account_id, kept.resource_id, kept.hour, news.price_book, news.unpriced
        FROM unpriced_usage AS kept
        JOIN unnest(CAST(:account_ids AS text[]), CAST(:resource_ids AS text[]),
                    CAST(:hours AS timestamptz[]), CAST(:revisions AS bigint[]),
                    CAST(:price_books AS bigint[]), CAST(:unpriced AS text[]))
             AS news (account_id, resource_id, hour, revision, price_book, unpriced)
             USING (account_id, resource_id, hour)
        WHERE kept.revision = news.revision AND kept.price_book < news.price_book
        ORDER BY kept.account_id, kept.resource_id, kept.hour
        FOR UPDATE OF kept
    )
    UPDATE unpriced_usage SET price_book = news.price_book, unpriced = CAST(news.unpriced AS jsonb)
    FROM news
    WHERE unpriced_usage.account_id = news.account_id
      AND unpriced_usage.resource_id = news.resource_id
      AND unpriced_usage.hour = news.hour
    """
)
_STALE = text(
    """
    SELECT account_id, resource_id, hour, price_book,
           CAST(unpriced AS text) AS unpriced, CAST(fact AS text) AS fact
    FROM unpriced_usage
    WHERE price_book < :price_book
      AND (account_id, resource_id, hour) > (:account_id, :resource_id, CAST(:hour AS timestamptz))
    ORDER BY account_id, resource_id, hour
    LIMIT :limit
    """
)
_PAGE = text(
    """
    SELECT account_id, resource_id, hour, lack.sku, lack.seconds, revision, price_book
    FROM unpriced_usage
    CROSS JOIN LATERAL jsonb_to_recordset(unpriced) AS lack (sku text, seconds bigint)
    WHERE (account_id, resource_id, hour) >= (:account_id, :resource_id, CAST(:hour AS timestamptz))
      AND (account_id, resource_id, hour, lack.sku)
          > (:account_id, :resource_id, CAST(:hour AS timestamptz), CAST(:after_sku AS text))
      AND (CAST(:sku AS text) IS NULL OR lack.sku = :sku)
    ORDER BY account_id, resource_id, hour, lack.sku
    LIMIT :limit
    """
)
_COUNT = text("SELECT count(*) FROM (SELECT FROM unpriced_usage LIMIT :limit) AS rows")

BEFORE_ALL: Key = ("", "", from_epoch(0))

_fact_decoder = msgspec.json.Decoder(UsageMetered)
_unpriced_decoder = msgspec.json.Decoder(list[Unpriced])


async def keep(connection: AsyncConnection, usages: Sequence[UnpricedUsage]) -> None:
    """Remember these, at most one per resource-hour; what is newer, by revision, then book, stays."""
    facts = [encode_fact(usage.fact).decode() for usage in usages]
    await connection.execute(_KEEP, {**_ratings(usages), "facts": facts})


async def renew(connection: AsyncConnection, usages: Sequence[UnpricedUsage]) -> None:
    """These were rated again and still lack a price; what has changed or gone meanwhile is left alone."""
    await connection.execute(_RENEW, _ratings(usages))


async def forget(connection: AsyncConnection, facts: Sequence[UsageMetered]) -> None:
    """These are priced in full; what is kept of a newer revision stays."""
    await connection.execute(_FORGET, _keys(facts))


async def rated_before(
    connection: AsyncConnection, price_book: int, after: Key, limit: int
) -> list[UnpricedUsage]:
    """Usage last rated under an older book than `price_book`, in the order of its key."""
    rows = await connection.execute(_STALE, {"price_book": price_book, "limit": limit, **_position(after)})
    return [_usage(row) for row in rows]


async def page(
    connection: AsyncConnection, sku: str | None, after: Key, after_sku: str, limit: int
) -> list[UnpricedSeconds]:
    """In the order of account, resource, hour and sku; only of `sku`, unless it is None."""
    position = {**_position(after), "after_sku": after_sku}
    rows = await connection.execute(_PAGE, {"sku": sku, "limit": limit, **position})
    return [UnpricedSeconds(*row) for row in rows]


async def count(connection: AsyncConnection, limit: int) -> int:
    """How many there are, not counting past `limit`."""
    return int(await connection.scalar(_COUNT, {"limit": limit}) or 0)


def key_of(fact: UsageMetered) -> Key:
    return fact.account_id, fact.resource_id, from_epoch(parse_epoch(fact.hour))


def _ratings(usages: Sequence[UnpricedUsage]) -> dict[str, object]:
    return {
        **_keys([usage.fact for usage in usages]),
        "price_books": [usage.price_book for usage in usages],
        "unpriced": [encode_fact(usage.unpriced).decode() for usage in usages],
    }


def _keys(facts: Sequence[UsageMetered]) -> dict[str, object]:
    return {
        "account_ids": [fact.account_id for fact in facts],
        "resource_ids": [fact.resource_id for fact in facts],
        "hours": [from_epoch(parse_epoch(fact.hour)) for fact in facts],
        "revisions": [fact.revision for fact in facts],
    }


def _position(after: Key) -> dict[str, str | datetime]:
    return dict(zip(("account_id", "resource_id", "hour"), after, strict=True))


def _usage(row: "Row[tuple[str, str, datetime, int, str, str]]") -> UnpricedUsage:
    return UnpricedUsage(
        _fact_decoder.decode(row.fact), row.price_book, _unpriced_decoder.decode(row.unpriced)
    )

"""Composition root: opens what the gateway needs and hands it to the rooms."""

import os
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from time import monotonic
from typing import Final

from fastapi import FastAPI

from services.gateway.api import accounts, api_keys, events, holds, prices
from services.gateway.api.door import Door
from services.gateway.api.parts import Parts
from services.gateway.api.problems import install_gateway_problems
from services.gateway.clients.metering import MeteringClient
from services.gateway.clients.pricing import PricingClient
from services.gateway.clients.wallet import WalletClient
from services.gateway.consumers import StandingConsumer
from services.gateway.settings import GatewaySettings
from services.gateway.usecases.authenticate import KeyRing
from services.gateway.usecases.forget_answers import keep_forgetting
from services.gateway.usecases.publish_reports import ReportPublisher
from shared.contracts.topics import ACCOUNT_STANDING
from shared.database import Database
from shared.ids import uuid7_source
from shared.kafka import BatchConsumer, Publisher
from shared.outbox import OutboxRelay
from shared.problems import install_problems
from shared.serving import Service, Worker
from shared.settings import KafkaSettings
from shared.time import Clock, system_clock

GROUP_ID: Final = "gateway"

DESCRIPTION: Final = """
Metering and billing for a GPU-rental cloud: report usage, read why each amount is what it is.

**Keys.** `Authorization: Bearer gk_...`. A key has a role: `operator` (everything), `finance` (reads
everything), `partner` (its accounts), `customer` (its account), `agent` (posts events). What a key may not
see answers 404.

**Money** is a decimal string of CNY with six places. **Times** are RFC 3339, any offset in, UTC out.
**Errors** are `application/problem+json` (RFC 9457) with a stable `type`; docs/api.md says what to do.
**Lists** take `limit` and `cursor`, and answer `items` and `next_cursor`. **Writes** take `Idempotency-Key`.
"""

TAGS: Final = [
    {"name": "events", "description": "Usage in: seconds that a resource was in a state."},
    {"name": "accounts", "description": "Who is billed."},
    {"name": "money", "description": "Balance, journal, charges, top-ups and grants of an account."},
    {"name": "usage", "description": "Which seconds were used."},
    {"name": "holds", "description": "May this start?"},
    {"name": "prices", "description": "Price books and quotes."},
    {"name": "exceptions", "description": "What somebody has to look at."},
    {"name": "API keys", "description": "Who may call."},
]


async def compose(settings: GatewaySettings, kafka: KafkaSettings, clock: Clock = system_clock) -> Service:
    database = Database(settings.database_url, settings.database_pool_size)
    publisher = Publisher(kafka)
    new_id = uuid7_source(clock)
    timeout_seconds, connections_max = settings.sibling_timeout_seconds, settings.sibling_connections_max
    parts = Parts(
        settings=settings,
        database=database,
        keys=KeyRing(database, settings.key_cache_seconds, monotonic),
        reports=ReportPublisher(publisher, settings.publish_seconds_max, settings.pending_bytes_max),
        metering=MeteringClient("metering", settings.metering_url, timeout_seconds, connections_max),
        pricing=PricingClient("pricing", settings.pricing_url, timeout_seconds, connections_max),
        wallet=WalletClient("the wallet", settings.wallet_url, timeout_seconds, connections_max),
        clock=clock,
        new_id=new_id,
        random_bytes=os.urandom,
    )
    standings = BatchConsumer(
        kafka,
        publisher,
        ACCOUNT_STANDING,
        GROUP_ID,
        StandingConsumer(database),
        clock=clock,
        linger_seconds=settings.linger_seconds,
        batch_records_max=settings.batch_records_max,
    )
    forget = partial(
        keep_forgetting, database=database, clock=clock, keep_hours=settings.idempotency_keep_hours
    )

    async def close() -> None:
        await parts.reports.close()
        await publisher.stop()
        for client in (parts.metering, parts.pricing, parts.wallet):
            await client.close()
        await database.close()

    return Service(
        name="gateway",
        api=build_api(parts),
        workers=[
            Worker("account standings", standings.run),
            Worker("outbox", OutboxRelay(database, publisher).run),
            Worker("old answers", forget),
        ],
        checks={"database": database.ping, "broker": publisher.ping},
        close=close,
    )


def build_api(parts: Parts) -> FastAPI:
    api = FastAPI(
        title="GPU billing",
        version=_version(),
        description=DESCRIPTION,
        openapi_tags=TAGS,
        redirect_slashes=False,
    )
    api.state.parts = parts
    install_problems(api)
    install_gateway_problems(api)
    for room in (events, accounts, holds, prices, api_keys):
        api.include_router(room.router)
    api.add_middleware(Door, settings=parts.settings, keys=parts.keys, new_id=parts.new_id)
    return api


def _version() -> str:
    try:
        return version("gpu-billing")
    except PackageNotFoundError:
        return "0.0.0"

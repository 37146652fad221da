"""Accounts, API keys, idempotency records and the outbox."""

from alembic import op

from shared.outbox import CREATE_OUTBOX_SQL

revision = "202611301900"
down_revision = None
branch_labels = None
depends_on = None

_UPGRADE = (
    """
    CREATE TABLE account (
        account_id    text        COLLATE "C" PRIMARY KEY CHECK (account_id ~ '^[A-Za-z0-9._:/@-]{1,128}$'),
        name          text        NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
        kind          text        NOT NULL CHECK (kind IN ('personal', 'university', 'enterprise')),
        trial         boolean     NOT NULL,
        registered_at timestamptz NOT NULL,
        created_at    timestamptz NOT NULL
    )
    """,
    # Apart from `account`: a standing may be told before its account is known here, and is then kept for it.
    """
    CREATE TABLE account_standing (
        account_id text   COLLATE "C" PRIMARY KEY,
        standing   text   NOT NULL CHECK (standing IN ('good', 'low', 'exhausted')),
        epoch      bigint NOT NULL
    )
    """,
    """
    CREATE TABLE api_key (
        key_id        uuid        PRIMARY KEY,
        key_hash      bytea       NOT NULL UNIQUE CHECK (length(key_hash) = 32),
        shown         text        NOT NULL,
        name          text        NOT NULL CHECK (length(name) BETWEEN 1 AND 128),
        role          text        NOT NULL
                      CHECK (role IN ('operator', 'finance', 'partner', 'customer', 'agent')),
        account_ids   text[]      NOT NULL,
        source_prefix text,
        created_at    timestamptz NOT NULL,
        revoked_at    timestamptz,
        CHECK ((role = 'agent') = (source_prefix IS NOT NULL)),
        CHECK (CASE role WHEN 'customer' THEN cardinality(account_ids) = 1
                         WHEN 'partner' THEN cardinality(account_ids) BETWEEN 1 AND 1000
                         ELSE cardinality(account_ids) = 0 END)
    )
    """,
    """
    CREATE TABLE idempotency (
        key_id          uuid        NOT NULL REFERENCES api_key,
        idempotency_key text        NOT NULL,
        command         text        NOT NULL,
        request_hash    bytea       NOT NULL,
        attempt         uuid        NOT NULL,
        created_at      timestamptz NOT NULL,
        lease_until     timestamptz NOT NULL,
        status          smallint,
        body            bytea,
        media_type      text,
        headers         jsonb,
        PRIMARY KEY (key_id, idempotency_key),
        CHECK (num_nulls(status, body, media_type, headers) IN (0, 4))
    )
    """,
    "CREATE INDEX idempotency_created_at ON idempotency (created_at)",
    CREATE_OUTBOX_SQL,
    "GRANT SELECT, INSERT ON account TO gateway",
    "GRANT SELECT, INSERT, UPDATE ON account_standing TO gateway",
    "GRANT SELECT, INSERT ON api_key TO gateway",
    "GRANT UPDATE (revoked_at) ON api_key TO gateway",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON idempotency TO gateway",
    "GRANT SELECT, INSERT, DELETE ON outbox TO gateway",
)


def upgrade() -> None:
    for statement in _UPGRADE:
        op.execute(statement)


def downgrade() -> None:
    for table in ("outbox", "idempotency", "api_key", "account_standing", "account"):
        op.execute(f"DROP TABLE {table}")

"""Price books, the default one as version 1, usage that waits for a price, what metering is asked for."""

from pathlib import Path

from alembic import op
from sqlalchemy import text

revision = "202611301900"
down_revision = None
branch_labels = None
depends_on = None

DEFAULT_BOOK = Path(__file__).parents[2] / "price_books" / "default.json"

UPGRADE = (
    """
    CREATE TABLE price_book (
        version        bigint      PRIMARY KEY CHECK (version >= 1),
        effective_from timestamptz NOT NULL,
        published_at   timestamptz NOT NULL,
        document       jsonb       NOT NULL
    )
    """,
    "CREATE INDEX price_book_in_force ON price_book (effective_from DESC, version DESC)",
    """
    CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
    END $$
    """,
    """
    CREATE TRIGGER price_book_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON price_book
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()
    """,
    """
    CREATE TABLE unpriced_usage (
        account_id  text        NOT NULL,
        resource_id text        NOT NULL,
        hour        timestamptz NOT NULL,
        revision    bigint      NOT NULL,
        price_book  bigint      NOT NULL,
        unpriced    jsonb       NOT NULL,
        fact        jsonb       NOT NULL,
        PRIMARY KEY (account_id, resource_id, hour)
    )
    """,
    """
    CREATE TABLE republish_request (
        price_book bigint      PRIMARY KEY,
        first_hour timestamptz NOT NULL,
        until      timestamptz CHECK (until > first_hour),
        asked_at   timestamptz
    )
    """,
    "CREATE INDEX unpriced_usage_by_price_book ON unpriced_usage (price_book)",
    "GRANT SELECT, INSERT ON price_book TO pricing",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON unpriced_usage TO pricing",
    "GRANT SELECT, INSERT, UPDATE (asked_at) ON republish_request TO pricing",
)

DOWNGRADE = (
    "DROP TABLE republish_request",
    "DROP TABLE unpriced_usage",
    "DROP TABLE price_book",
    "DROP FUNCTION refuse_change",
)

SEED = text(
    """
    INSERT INTO price_book (version, effective_from, published_at, document)
    SELECT 1, CAST(book ->> 'effective_from' AS timestamptz), now(), book
    FROM CAST(:document AS jsonb) AS book
    """
)


def upgrade() -> None:
    for statement in UPGRADE:
        op.execute(statement)
    op.get_bind().execute(SEED, {"document": DEFAULT_BOOK.read_text(encoding="utf-8")})


def downgrade() -> None:
    for statement in DOWNGRADE:
        op.execute(statement)

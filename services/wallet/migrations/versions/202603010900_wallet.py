"""Accounts, lots, charges, holds and the journal; what the service's role may do with each."""

from alembic import op

from shared.outbox import CREATE_OUTBOX_SQL

revision = "202603010900"
down_revision = None
branch_labels = None
depends_on = None

# Hot: one row per account, updated by each batch that touches it. No index on what changes, room on the
# page for the next version (HOT). Available is never stored: it is computed (R17).
CREATE_ACCOUNT_SQL = """
CREATE TABLE account (
    account_id         text COLLATE "C" PRIMARY KEY CHECK (length(account_id) BETWEEN 1 AND 128),
    name               text NOT NULL DEFAULT '',
    kind               text NOT NULL DEFAULT 'personal'
                       CHECK (kind IN ('personal', 'university', 'enterprise')),
    registered_at      timestamptz,
    opened             boolean NOT NULL DEFAULT false,
    created_at         timestamptz NOT NULL,
    cash               bigint NOT NULL DEFAULT 0 CHECK (cash >= 0),
    accrued            bigint NOT NULL DEFAULT 0,
    debt               bigint NOT NULL DEFAULT 0 CHECK (debt >= 0),
    held               bigint NOT NULL DEFAULT 0 CHECK (held >= 0),
    charged_ever       boolean NOT NULL DEFAULT false,
    charged_at         timestamptz,
    burn_rate_per_hour bigint NOT NULL DEFAULT 0 CHECK (burn_rate_per_hour >= 0),
    burning            boolean NOT NULL DEFAULT false,
    review_at          timestamptz,
    standing           text NOT NULL DEFAULT 'good' CHECK (standing IN ('good', 'low', 'exhausted')),
    epoch              bigint NOT NULL DEFAULT 0,
    CHECK (opened = (registered_at IS NOT NULL)),
    CONSTRAINT account_pays_debt_first CHECK (cash = 0 OR debt = 0)
) WITH (fillfactor = 50)
"""

# `open` is what the partial indexes look at: it flips when a lot runs dry, so that burning from a lot
# stays a HOT update.
CREATE_LOT_SQL = """
CREATE TABLE lot (
    account_id   text COLLATE "C" NOT NULL REFERENCES account,
    lot_id       uuid NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('trial', 'promo', 'compensation', 'cash')),
    priority     smallint NOT NULL,
    granted      bigint NOT NULL CHECK (granted > 0),
    remaining    bigint NOT NULL,
    effective_at timestamptz NOT NULL,
    expires_at   timestamptz,
    reference    text NOT NULL,
    entry_id     uuid NOT NULL,
    created_at   timestamptz NOT NULL,
    swept        boolean NOT NULL DEFAULT false,
    open         boolean GENERATED ALWAYS AS (remaining > 0) STORED,
    PRIMARY KEY (account_id, lot_id),
    CONSTRAINT lot_never_negative CHECK (remaining BETWEEN 0 AND granted),
    CONSTRAINT lot_swept_is_empty CHECK (NOT swept OR remaining = 0),
    CHECK (expires_at > effective_at),
    CONSTRAINT lot_cash_never_ends CHECK (kind <> 'cash' OR expires_at IS NULL)
) WITH (fillfactor = 60)
"""
CREATE_LOT_INDEXES_SQL = (
    "CREATE UNIQUE INDEX lot_one_trial ON lot (account_id) WHERE kind = 'trial'",
    "CREATE INDEX lot_open ON lot (account_id) WHERE open",
    "CREATE INDEX lot_expiring ON lot (expires_at) WHERE open AND expires_at IS NOT NULL",
)

# An instant at which a lot begins or ends: available changes by time alone and standing is looked at.
CREATE_LOT_BOUNDARY_SQL = """
CREATE TABLE lot_boundary (
    at         timestamptz NOT NULL,
    account_id text COLLATE "C" NOT NULL,
    lot_id     uuid NOT NULL,
    PRIMARY KEY (at, account_id, lot_id)
)
"""

# Hot. The key's order makes burn rate, settlement and listing scans of one prefix. `settled_lines` holds
# the lines of the settled revision only while a newer one waits; else they are `lines` (lines_settled).
CREATE_CHARGE_SQL = """
CREATE TABLE charge (
    account_id    text COLLATE "C" NOT NULL,
    hour          timestamptz NOT NULL,
    resource_id   text COLLATE "C" NOT NULL,
    revision      bigint NOT NULL,
    price_book    bigint NOT NULL,
    amount        bigint NOT NULL CHECK (amount >= 0),
    settled       bigint NOT NULL DEFAULT 0 CHECK (settled >= 0),
    rate_per_hour bigint NOT NULL CHECK (rate_per_hour >= 0),
    covered_until timestamptz NOT NULL,
    lines_settled boolean NOT NULL DEFAULT false,
    lines         text NOT NULL,
    settled_lines text,
    unpriced      text,
    PRIMARY KEY (account_id, hour, resource_id),
    CHECK (settled_lines IS NULL OR NOT lines_settled)
) WITH (fillfactor = 60)
"""

CREATE_UNSETTLED_HOUR_SQL = """
CREATE TABLE unsettled_hour (
    account_id text COLLATE "C" NOT NULL,
    hour       timestamptz NOT NULL,
    marked_at  timestamptz NOT NULL,
    PRIMARY KEY (account_id, hour)
)
"""

# The journal. `command` is what was asked, as canonical JSON, to tell a repeat from a conflict (R19).
CREATE_ENTRY_SQL = """
CREATE TABLE entry (
    account_id  text COLLATE "C" NOT NULL REFERENCES account,
    entry_id    uuid NOT NULL,
    kind        text NOT NULL CHECK (kind IN ('trial', 'grant', 'top_up', 'settlement', 'expiry')),
    reference   text,
    hour        timestamptz,
    occurred_at timestamptz NOT NULL,
    memo        text NOT NULL,
    command     text,
    PRIMARY KEY (account_id, entry_id),
    CHECK ((kind = 'settlement') = (hour IS NOT NULL)),
    CHECK ((kind = 'settlement') = (reference IS NULL))
)
"""
CREATE_ENTRY_REFERENCE_SQL = """
CREATE UNIQUE INDEX entry_once_per_reference ON entry (account_id, kind, reference)
    WHERE reference IS NOT NULL
"""

# A transfer balances by construction: one amount, one account debited, another credited (R10).
CREATE_TRANSFER_SQL = """
CREATE TABLE transfer (
    account_id     text COLLATE "C" NOT NULL,
    entry_id       uuid NOT NULL,
    seq            integer NOT NULL,
    debit_account  text COLLATE "C" NOT NULL,
    credit_account text COLLATE "C" NOT NULL,
    amount         bigint NOT NULL CONSTRAINT transfer_moves_something CHECK (amount > 0),
    PRIMARY KEY (account_id, entry_id, seq),
    FOREIGN KEY (account_id, entry_id) REFERENCES entry,
    CONSTRAINT transfer_between_two CHECK (debit_account <> credit_account)
)
"""

# Which lot paid which seconds of a charge; lot_id null: nobody did, it is owed. Negative: given back.
# Written beside its entry and, five rows to one of those, without the cost of a foreign key: a proof looks.
CREATE_ALLOCATION_SQL = """
CREATE TABLE allocation (
    account_id  text COLLATE "C" NOT NULL,
    hour        timestamptz NOT NULL,
    resource_id text COLLATE "C" NOT NULL,
    seq         integer NOT NULL,
    entry_id    uuid NOT NULL,
    lot_id      uuid,
    from_second smallint NOT NULL,
    to_second   smallint NOT NULL,
    amount      bigint NOT NULL CHECK (amount <> 0),
    paid_at     timestamptz NOT NULL,
    PRIMARY KEY (account_id, hour, resource_id, seq),
    CHECK (0 <= from_second AND from_second < to_second AND to_second <= 3600)
)
"""

CREATE_HOLD_SQL = """
CREATE TABLE hold (
    account_id text COLLATE "C" NOT NULL REFERENCES account,
    hold_id    uuid NOT NULL UNIQUE,
    reference  text NOT NULL,
    amount     bigint NOT NULL CHECK (amount >= 0),
    state      text NOT NULL DEFAULT 'active' CHECK (state IN ('active', 'released', 'expired')),
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    closed_at  timestamptz,
    command    text NOT NULL,
    PRIMARY KEY (account_id, hold_id),
    CONSTRAINT hold_once_per_reference UNIQUE (account_id, reference),
    CHECK ((state = 'active') = (closed_at IS NULL))
)
"""

REFUSE_CHANGE_SQL = """
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: a mistake is mended by a further entry (R10)', TG_TABLE_NAME
        USING ERRCODE = 'integrity_constraint_violation';
END $$
"""
APPEND_ONLY = ("entry", "transfer", "allocation")

# What each table allows the service's role; nothing else. Facts of a lot and of a hold never change.
GRANTS_SQL = (
    "GRANT SELECT, INSERT, UPDATE ON account TO wallet",
    "GRANT SELECT, INSERT, UPDATE (remaining, swept) ON lot TO wallet",
    "GRANT SELECT, INSERT, DELETE ON lot_boundary TO wallet",
    "GRANT SELECT, INSERT, UPDATE ON charge TO wallet",
    "GRANT SELECT, INSERT, DELETE ON unsettled_hour TO wallet",
    "GRANT SELECT, INSERT ON entry, transfer, allocation TO wallet",
    "GRANT SELECT, INSERT, UPDATE (state, closed_at) ON hold TO wallet",
    "GRANT SELECT, INSERT, DELETE ON outbox TO wallet",
)


def upgrade() -> None:
    op.execute(CREATE_ACCOUNT_SQL)
    op.execute("CREATE INDEX account_burning ON account (account_id) WHERE burning")
    op.execute("CREATE INDEX account_unknown ON account (account_id) WHERE NOT opened")
    op.execute(CREATE_LOT_SQL)
    for statement in CREATE_LOT_INDEXES_SQL:
        op.execute(statement)
    op.execute(CREATE_LOT_BOUNDARY_SQL)
    op.execute(CREATE_CHARGE_SQL)
    op.execute(CREATE_UNSETTLED_HOUR_SQL)
    op.execute("CREATE INDEX unsettled_hour_oldest ON unsettled_hour (hour, account_id)")
    op.execute(CREATE_ENTRY_SQL)
    op.execute(CREATE_ENTRY_REFERENCE_SQL)
    op.execute(CREATE_TRANSFER_SQL)
    op.execute(CREATE_ALLOCATION_SQL)
    op.execute(CREATE_HOLD_SQL)
    op.execute("CREATE INDEX hold_active ON hold (expires_at) WHERE state = 'active'")
    op.execute(CREATE_OUTBOX_SQL)
    op.execute(REFUSE_CHANGE_SQL)
    for table in APPEND_ONLY:
        op.execute(
            f"CREATE TRIGGER {table}_is_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}"
            " FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
        )
    for statement in GRANTS_SQL:
        op.execute(statement)


def downgrade() -> None:
    op.execute(
        "DROP TABLE outbox, hold, allocation, transfer, entry, unsettled_hour, charge, lot_boundary, lot,"
        " account"
    )
    op.execute("DROP FUNCTION refuse_change()")

"""What metering keeps, and what its role may do."""

from alembic import op

revision = "202603010900"
down_revision = None
branch_labels = None
depends_on = None

# Rows are inserted once and then updated many times within their hour. Nothing that an update changes is
# indexed and half of each page is left free, so that updates stay on their page and touch no index (HOT).
CREATE = """
CREATE TABLE usage_window (
    account_id  text COLLATE "C" NOT NULL,
    resource_id text COLLATE "C" NOT NULL,
    hour        timestamptz      NOT NULL CHECK (date_trunc('hour', hour, 'UTC') = hour),
    since       timestamptz      NOT NULL,
    state_hash  uuid             NOT NULL,
    state       text COLLATE "C" NOT NULL,
    coverage    int4multirange   NOT NULL CHECK (coverage <@ '{[0,3600)}' AND NOT isempty(coverage)),
    revision    bigint           NOT NULL CHECK (revision > 0),
    PRIMARY KEY (account_id, resource_id, hour, since, state_hash)
) WITH (fillfactor = 50)
"""

# Requests to tell facts again. `told_*` are the last resource-hour that the walk has dealt with.
CREATE_REPUBLISH = """
CREATE TABLE republish (
    reference        text COLLATE "C" PRIMARY KEY,
    first_hour       timestamptz      NOT NULL CHECK (date_trunc('hour', first_hour, 'UTC') = first_hour),
    until_hour       timestamptz      CHECK (date_trunc('hour', until_hour, 'UTC') = until_hour),
    requested_at     timestamptz      NOT NULL,
    told_account_id  text COLLATE "C",
    told_resource_id text COLLATE "C",
    told_hour        timestamptz,
    hours_told       bigint           NOT NULL DEFAULT 0,
    finished_at      timestamptz,
    CHECK (until_hour > first_hour)
)
"""


def upgrade() -> None:
    op.execute(CREATE)
    # No DELETE: the revision of a fact is the sum of its rows' revisions and must only grow.
    op.execute("GRANT SELECT, INSERT, UPDATE ON usage_window TO metering")
    op.execute(CREATE_REPUBLISH)
    # What was asked for stays as it was asked.
    op.execute("GRANT SELECT, INSERT ON republish TO metering")
    op.execute(
        "GRANT UPDATE (told_account_id, told_resource_id, told_hour, hours_told, finished_at)"
        " ON republish TO metering"
    )


def downgrade() -> None:
    op.execute("DROP TABLE republish")
    op.execute("DROP TABLE usage_window")

#!/bin/sh
# One database and one role per service; a role may enter its own database only. Run at every start: what is there stays,
# passwords are set to what the environment says. PGHOST, PGUSER and PGPASSWORD name the administrator.
set -eu

for service in metering pricing wallet gateway; do
    name=$(printf '%s_PASSWORD' "$service" | tr '[:lower:]' '[:upper:]')
    eval "password=\$$name"
    psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --dbname=postgres \
        --set=service="$service" --set=password="$password" <<'SQL'
SELECT format('CREATE ROLE %I', :'service')
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = :'service') \gexec
SELECT format('CREATE DATABASE %I', :'service')
WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = :'service') \gexec
ALTER ROLE :"service" LOGIN PASSWORD :'password';
REVOKE ALL ON DATABASE :"service" FROM PUBLIC;
GRANT CONNECT ON DATABASE :"service" TO :"service";
SQL
    echo "database $service is there"
done
psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 --dbname=postgres \
    --command='REVOKE CONNECT ON DATABASE postgres, template1 FROM PUBLIC'

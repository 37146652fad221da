from shared.migrations import run_migrations_env

run_migrations_env()

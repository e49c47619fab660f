#!/bin/sh
# Runs once, when the image of PostgreSQL has made an empty database cluster.
set -eu
# Not by -v: the list of processes would show them.
psql -X -q -U postgres <<'END'
\set api_password `cat /etc/static/tls/api.password`
\set relay_password `cat /etc/static/tls/relay.password`
\set replica_password `cat /etc/static/tls/replica.password`
\i /etc/static/postgres/create.sql
END
cp /etc/static/postgres/pg_hba.conf "$PGDATA/pg_hba.conf"
# From the next start on: now, no standby could answer.
cat >> "$PGDATA/postgresql.conf" <<END
include '/etc/static/postgres/primary.conf'
ssl_cert_file = '/etc/static/tls/postgres.crt'
ssl_key_file = '/etc/static/tls/postgres.key'
listen_addresses = '*'
END

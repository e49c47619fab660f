#!/bin/sh
# Runs once, when the image of PostgreSQL has made an empty database cluster.
set -eu
psql -X -q -U postgres -v api_password="$API_PASSWORD" -v relay_password="$RELAY_PASSWORD" \
  -v replica_password="$REPLICA_PASSWORD" -f /etc/static/postgres/create.sql
cp /etc/static/postgres/pg_hba.conf "$PGDATA/pg_hba.conf"
# From the next start on: now, no standby could answer.
cat >> "$PGDATA/postgresql.conf" <<END
include '/etc/static/postgres/primary.conf'
ssl_cert_file = '/etc/static/tls/postgres.crt'
ssl_key_file = '/etc/static/tls/postgres.key'
listen_addresses = '*'
END

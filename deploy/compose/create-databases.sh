#!/bin/sh
# Runs once, when the image of PostgreSQL has made an empty database cluster.
set -eu
PASSWORDS=/etc/static/tls psql -X -q -U postgres -f /etc/static/postgres/create.sql
cp /etc/static/postgres/pg_hba.conf "$PGDATA/pg_hba.conf"
cat >> "$PGDATA/postgresql.conf" <<END
include '/etc/static/postgres/primary.conf'
ssl_cert_file = '/etc/static/tls/postgres.crt'
ssl_key_file = '/etc/static/tls/postgres.key'
listen_addresses = '*'
END

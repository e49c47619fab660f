#!/bin/sh
# Copies the primary into an empty data directory, which then starts as its synchronous standby. Run it as the user of
# PostgreSQL: PRIMARY=db-1.example.com PGPASSFILE=… standby.sh DATA_DIRECTORY
# For a standby that already follows, it does nothing.
set -eu
data=$1
[ -e "$data/standby.signal" ] && exit 0
if [ -n "$(ls -A "$data" 2>/dev/null)" ]; then
  echo "$data is not empty. Move what is in it away: a former primary must not start again." >&2
  exit 1
fi
connection="host=$PRIMARY port=${PRIMARY_PORT:-5432} user=static_replica sslmode=verify-full sslrootcert=${PRIMARY_CA:-/etc/static/ca.pem}"
# The slot may be left from a standby before.
slot=$(pg_receivewal -d "$connection" --slot static_standby --create-slot --if-not-exists 2>&1) || { echo "$slot" >&2; exit 1; }
pg_basebackup -d "$connection" -D "$data" -X stream -S static_standby -R --checkpoint=fast
chmod 700 "$data"
# The name by which the primary waits for it.
echo "cluster_name = 'static_standby'" >> "$data/postgresql.auto.conf"

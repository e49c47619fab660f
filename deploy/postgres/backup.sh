#!/bin/sh
# Backs up both databases while everything runs, as of one moment: backup.sh TARGET. The target must not exist.
# Take it from the standby, so that the primary is not slowed down. SERVER, PRIMARY_CA and PGPASSFILE as for standby.sh.
# NATS stores nothing. Back up the secrets apart, once: master.key, relay.credential, relay.key, certificates. Without
# master.key and relay.key the databases are of no use.
set -eu
target=$1
[ -e "$target" ] && { echo "$target exists. A backup overwrites nothing: name a new directory." >&2; exit 1; }
connection="host=$SERVER port=${SERVER_PORT:-5432} user=static_replica sslmode=verify-full sslrootcert=${PRIMARY_CA:-/etc/static/ca.pem}"
# Debian keeps pg_verifybackup out of the path.
PATH=$PATH:$(ls -d /usr/lib/postgresql/*/bin 2> /dev/null | tail -n 1)
umask 077
# Until it is verified it has another name.
pg_basebackup -d "$connection" -D "$target.part" -X stream --checkpoint=fast --manifest-checksums=SHA256
pg_verifybackup -q "$target.part"
mv "$target.part" "$target"

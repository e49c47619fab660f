#!/bin/sh
# Restores a backup of backup.sh into an empty data directory: restore.sh BACKUP DATA_DIRECTORY, as the user of
# PostgreSQL, with all API and relay nodes stopped. The consequences for agents are in docs/06-self-hosting.md, "Backups".
set -eu
backup=$1 data=$2
if [ -n "$(ls -A "$data" 2>/dev/null)" ]; then
  echo "$data is not empty. Move what is in it away." >&2
  exit 1
fi
# Debian keeps pg_verifybackup out of the path.
PATH=$PATH:$(ls -d /usr/lib/postgresql/*/bin 2> /dev/null | tail -n 1)
pg_verifybackup -q "$backup"
mkdir -p "$data"
cp -a "$backup/." "$data/"
chmod 700 "$data"
# It is a primary again, for now without a standby: see promote.sh.
rm -f "$data/standby.signal"
sed -i '/^primary_conninfo\|^primary_slot_name\|^cluster_name/d' "$data/postgresql.auto.conf"
echo "synchronous_standby_names = ''" >> "$data/postgresql.auto.conf"

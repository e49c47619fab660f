#!/bin/sh
# Makes the standby the primary, after the primary is gone for good: `promote.sh`, as the user of PostgreSQL on the
# standby. First make sure that the old primary cannot come back (stop it, cut its network): two primaries mean two
# histories. It goes on without a standby: make a new one (standby.sh) and run `promote.sh --wait-for-standby`.
set -eu
psql='psql -X -q -v ON_ERROR_STOP=1 -d postgres'
if [ "${1:-}" = --wait-for-standby ]; then
  $psql -c "alter system reset synchronous_standby_names"
  $psql -c "select pg_reload_conf()" > /dev/null
  exit 0
fi
$psql -c "alter system set synchronous_standby_names = ''"
$psql -c "alter system reset cluster_name"
$psql -c "select pg_reload_conf()" > /dev/null
$psql -t -c "select case when pg_is_in_recovery() then pg_promote() else true end" | grep -q t
echo 'This is the primary now, without a standby. Every commit is on one disk only until there is a new one.'

-- Creates the two databases and their roles. A relay node cannot read accounts, an API node cannot read channels.
-- The passwords are in files, because a command line is visible to other users of the machine:
-- PASSWORDS=DIRECTORY psql -X -f create.sql, with api.password, relay.password and replica.password in the directory.
\set ON_ERROR_STOP on
\set api_password `cat "$PASSWORDS/api.password"`
\set relay_password `cat "$PASSWORDS/relay.password"`
\set replica_password `cat "$PASSWORDS/replica.password"`
-- With primary.conf a commit waits for the standby, which cannot be made before its role.
set synchronous_commit = local;
create role static_api login password :'api_password';
create role static_relay login password :'relay_password';
create role static_replica login replication password :'replica_password';
create database static_api owner static_api encoding 'UTF8';
create database static_relay owner static_relay encoding 'UTF8';
revoke all on database static_api, static_relay, postgres, template1 from public;
-- A PgBouncer passes no settings of a session on, so the role has them (pgbouncer=true in STATIC_DATABASE).
alter role static_api set statement_timeout = '10s';
alter role static_api set idle_in_transaction_session_timeout = '30s';

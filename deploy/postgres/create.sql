-- Creates the two databases and their roles. A relay node cannot read accounts, an API node cannot read channels.
-- psql -v api_password=… -v relay_password=… -v replica_password=… -f create.sql
\set ON_ERROR_STOP on
create role static_api login password :'api_password';
create role static_relay login password :'relay_password';
create role static_replica login replication password :'replica_password';
create database static_api owner static_api encoding 'UTF8';
create database static_relay owner static_relay encoding 'UTF8';
revoke all on database static_api, static_relay, postgres, template1 from public;
-- A PgBouncer passes no settings of a session on, so the role has them (pgbouncer=true in STATIC_DATABASE).
alter role static_api set statement_timeout = '10s';
alter role static_api set idle_in_transaction_session_timeout = '30s';

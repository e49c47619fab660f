#!/bin/sh
# Makes the secrets of the cluster, once. Keep a copy of them: kubectl -n static get secret -o yaml.
# The certificates (static-tls, nats-tls) come from your authority, for example from cert-manager. The names that they
# need: api.example.com, relay.example.com, *.static-api.static.svc; and nats.static.svc.
set -eu
umask 077
random() { openssl rand -hex 32; }
credential=$(random) token=$(random) api=$(random) relay=$(random) nats=$(random)
hosts='static-postgres-rw.static.svc:5432'
tls='sslmode=verify-full&sslrootcert=/etc/static-postgres/ca.crt'
# From files in memory: what is on a command line, other users of this machine see.
directory=$(mktemp -d -p "${XDG_RUNTIME_DIR:-/dev/shm}")
trap 'rm -rf "$directory"' EXIT
put() { printf %s "$2" > "$directory/$1"; }
create() { # name, arguments; then the files, which are removed
  kubectl -n static create secret generic "$@" --from-file="$directory"
  rm "$directory"/*
}
put master.key "$(random)"
put relay.credential "$credential"
put metrics.token "$token"
put database.url "postgres://static_api:$api@$hosts/static_api?$tls"
create static-api-keys
put relay.key "$(random)"
put relay.credential "$credential"
put metrics.token "$token"
put database.url "postgres://static_relay:$relay@$hosts/static_relay?$tls"
put nats.url "tls://static:$nats@nats.static.svc:4222"
create static-relay-keys
put password.conf "NATS_PASSWORD: \"$nats\""
create static-nats
put username static_api
put password "$api"
create static-postgres-api --type=kubernetes.io/basic-auth
put username static_relay
put password "$relay"
create static-postgres-relay --type=kubernetes.io/basic-auth

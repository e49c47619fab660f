#!/bin/sh
# Makes the secrets of the cluster, once. Keep a copy of them: kubectl -n static get secret -o yaml.
# The certificates (static-tls, nats-tls) come from your authority, for example from cert-manager. The names that they
# need: api.example.com, relay.example.com, *.static-api.static.svc; and nats.static.svc.
set -eu
random() { openssl rand -hex 32; }
credential=$(random) token=$(random) api=$(random) relay=$(random) nats=$(random)
hosts='static-postgres-rw.static.svc:5432'
tls='sslmode=verify-full&sslrootcert=/etc/static-postgres/ca.crt'
create() { kubectl -n static create secret generic "$@"; }
create static-api-keys --from-literal=master.key="$(random)" --from-literal=relay.credential="$credential" \
  --from-literal=metrics.token="$token"
create static-relay-keys --from-literal=relay.key="$(random)" --from-literal=relay.credential="$credential" \
  --from-literal=metrics.token="$token"
create static-api-env --from-literal=STATIC_DATABASE="postgres://static_api:$api@$hosts/static_api?$tls"
create static-relay-env --from-literal=STATIC_NATS="tls://static:$nats@nats.static.svc:4222" \
  --from-literal=STATIC_RELAY_DATABASE="postgres://static_relay:$relay@$hosts/static_relay?$tls"
create static-nats --from-literal=NATS_PASSWORD="$nats"
create static-postgres-api --type=kubernetes.io/basic-auth --from-literal=username=static_api --from-literal=password="$api"
create static-postgres-relay --type=kubernetes.io/basic-auth --from-literal=username=static_relay --from-literal=password="$relay"

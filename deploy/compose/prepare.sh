#!/bin/sh
# Makes what the cluster in compose.yaml needs, in ./secrets: an authority and certificates, keys, passwords; and in .env
# the images, by digest. Run it once, as root, because each file belongs to the user of its container. Needs openssl.
set -eu
cd "$(dirname "$0")"
[ -e secrets ] && { echo 'secrets exists. Move it away to make a new cluster.' >&2; exit 1; }
base=$(../image.sh docker.io/library/debian:bookworm-slim)
postgres=$(../image.sh docker.io/library/postgres:15-bookworm)
nats=$(../image.sh docker.io/library/nats:2)
printf 'BASE_IMAGE=%s\nPOSTGRES_IMAGE=%s\nNATS_IMAGE=%s\n' "$base" "$postgres" "$nats" > .env
umask 077
mkdir secrets secrets/tls secrets/postgres secrets/nats
random() { openssl rand -hex 32; }
key() { openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"; }
ca=secrets/authority
mkdir $ca
key $ca/ca.key
openssl req -x509 -new -key $ca/ca.key -days 3650 -subj '/CN=Static cluster' -out $ca/ca.pem \
  -addext 'basicConstraints=critical,CA:TRUE' -addext 'keyUsage=critical,keyCertSign,cRLSign'
issue() { # directory name names
  key "$1/$2.key"
  openssl req -new -key "$1/$2.key" -subj "/CN=$2" -out $ca/request
  printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth\n' "$3" > $ca/extensions
  openssl x509 -req -in $ca/request -CA $ca/ca.pem -CAkey $ca/ca.key -CAcreateserial -days 825 \
    -extfile $ca/extensions -out "$1/$2.crt" 2> /dev/null
  cp $ca/ca.pem "$1/ca.pem"
}
issue secrets/tls static 'DNS:api.localhost,DNS:relay.localhost,DNS:api-1,DNS:api-2,DNS:relay-1,DNS:relay-2,DNS:relay-3'
issue secrets/postgres postgres 'DNS:postgres-1,DNS:postgres-2'
issue secrets/nats nats 'DNS:nats'

api=$(random) relay=$(random) replica=$(random) nats=$(random)
hosts='postgres-1:5432,postgres-2:5432'
tls='sslmode=verify-full&sslrootcert=/etc/static/ca.pem'
echo "NATS_PASSWORD: \"$nats\"" > secrets/nats/password.conf
random > secrets/postgres/postgres.password
echo "$api" > secrets/postgres/api.password
echo "$relay" > secrets/postgres/relay.password
echo "$replica" > secrets/postgres/replica.password

# Every node of a kind has the same keys.
master=$(random) credential=$(random) relay_key=$(random) token=$(random)
for node in api-1 api-2 relay-1 relay-2 relay-3; do
  mkdir "secrets/$node"
  echo "$token" > "secrets/$node/metrics.token"
  echo "$credential" > "secrets/$node/relay.credential"
  case $node in
    api-*)
      echo "$master" > "secrets/$node/master.key"
      echo "postgres://static_api:$api@$hosts/static_api?$tls" > "secrets/$node/database.url"
      ;;
    relay-*)
      echo "$relay_key" > "secrets/$node/relay.key"
      echo "postgres://static_relay:$relay@$hosts/static_relay?$tls" > "secrets/$node/database.url"
      echo "tls://static:$nats@nats:4222" > "secrets/$node/nats.url"
      ;;
  esac
  chown -R 10001:10001 "secrets/$node"
done
chown -R 10001:10001 secrets/tls
# The users of the images of PostgreSQL and NATS.
chown -R 999:999 secrets/postgres
chmod 755 secrets/nats
chmod 644 secrets/nats/*
echo 'Made ./secrets. Keep a copy of it in a safe place, and start the cluster with `docker compose up -d`.'

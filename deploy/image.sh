#!/bin/sh
# Prints an image by its digest, such as docker.io/library/nats@sha256:…: image.sh docker.io/library/nats:2
# A tag can be moved to another image at any time; a digest names the same bytes forever. Needs docker, or podman under its
# name.
set -eu
docker pull -q "$1" > /dev/null
docker image inspect --format '{{index .RepoDigests 0}}' "$1"

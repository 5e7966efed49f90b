#!/usr/bin/env bash
# Prepare a collection on a ray cluster. On a cluster that runs, RAY_ADDRESS names it; otherwise this machine becomes its
# head, which other machines join while the work goes on, with: ray start --address HEAD:PORT
#
#   ./prepare_on_ray.sh vggsound.csv --roots videos/ --split train --out shards/
#
# A cluster is guarded by a token, which every machine has to be given: RAY_AUTH_TOKEN, or the file that
# `ray get-auth-token --generate` writes. All machines see the videos and the shards under the same names. A machine that is lost costs the shards it was at, which
# others make again; if the head is lost, the same command goes on where it was.
set -euo pipefail
if [ -z "${RAY_ADDRESS:-}" ]; then
  PORT=${PORT:-6379}
  # in the foreground of a process of ours, which takes its parts with it: `ray stop` would end every cluster here
  ray start --head --block --port "$PORT" --include-dashboard=false ${RAY_HEAD_FLAGS:-} &
  HEAD=$!
  trap 'kill "$HEAD"; wait "$HEAD" || true' EXIT
  RAY_ADDRESS=127.0.0.1:$PORT
  until ray health-check --address "$RAY_ADDRESS" 2>/dev/null; do
    kill -0 "$HEAD"  # it did not start
    sleep 1
  done
fi
export RAY_ADDRESS
soundwhere prepare "$@" --on ray

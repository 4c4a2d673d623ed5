#!/bin/sh
# Installs the webhook in a cluster of one machine, has one Deployment denied, and removes everything (docs/try.md).
#
#   sh examples/try/try.sh kind|minikube|k3s     builds the image and loads it
#   sh examples/try/try.sh loaded                the image $REPOSITORY:$TAG is in the cluster
set -eu
cd "$(dirname "$0")/../.."
REPOSITORY="${REPOSITORY:-localhost/podfit}" TAG="${TAG:-try}"

run() {
  printf '\n$ %s\n' "$*"
  "$@"
}

denied() {
  printf '\n$ %s\n' "$*"
  if "$@"; then
    echo "expected a denial" >&2
    exit 1
  fi
}

case "${1:-}" in
kind) build() { run docker build -t "$REPOSITORY:$TAG" . && run kind load docker-image "$REPOSITORY:$TAG"; } ;;
minikube) build() { run docker build -t "$REPOSITORY:$TAG" . && run minikube image load "$REPOSITORY:$TAG"; } ;;
k3s) build() { run docker build -t "$REPOSITORY:$TAG" . && docker save "$REPOSITORY:$TAG" | run sudo k3s ctr images import -; } ;;
loaded) build() { :; } ;;
*)
  sed -n '2,5p' "$0" >&2
  exit 2
  ;;
esac

build
run helm install podfit charts/podfit --namespace podfit-system --create-namespace --wait \
  --set image.repository="$REPOSITORY" --set image.tag="$TAG" --set image.pullPolicy=Never --set replicaCount=1
run kubectl create namespace chat
run kubectl apply -f examples/llama-8b-on-a-t4.yaml
run kubectl -n podfit-system logs deployment/podfit --tail 20
run kubectl apply -f examples/try/policy.yaml
run kubectl wait --for=condition=Ready policies.podfit.dev/enforce-chat --timeout=30s
denied kubectl apply -f examples/llama-70b-without-shm.yaml
run kubectl apply -f examples/good.yaml
run kubectl delete namespace chat
run helm uninstall podfit --namespace podfit-system
run kubectl delete crd policies.podfit.dev
run kubectl delete namespace podfit-system

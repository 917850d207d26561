#!/usr/bin/env bash
# Runs a command with a Docker engine of its own: tests/ci/engine.sh COMMAND...
#
# Installs the engine where it is missing (Debian and its like, as root), starts it on a private
# socket and data root, makes a base image like this machine's system, builds the workers' image on
# it, exports DOCKER_HOST, runs the command, and takes everything down again. Where an engine cannot
# be started it says why and runs the command without one: engine tests then skip by name.
#
# KERNELSMITH_ENGINE_CACHE: where the base is kept between runs; default build/engine.
set -euo pipefail
cd "$(dirname "$0")/../.."
cache="${KERNELSMITH_ENGINE_CACHE:-build/engine}"
base=kernelsmith-base:local
place="$(mktemp -d /tmp/kernelsmith-engine-XXXXXX)"
daemon=""

say() { echo "engine: $*" >&2; }

take_down() {
  if [ -n "$daemon" ]; then
    docker ps -aq | xargs -r docker rm -f >/dev/null 2>&1 || true
    # By its file: a command may have killed the engine and started it again.
    daemon="$(cat "$place/docker.pid" 2>/dev/null || echo "$daemon")"
    kill "$daemon" 2>/dev/null || true
    while kill -0 "$daemon" 2>/dev/null && [ -e "$place/docker.pid" ]; do sleep 0.2; done
    # Of containers that an engine left behind when it was killed.
    { pgrep -f -- "-address $place/exec/" || true; } | xargs -r kill -9 2>/dev/null || true
  fi
  umount -R "$place"/data/* "$place"/exec/* 2>/dev/null || true
  # The folder itself is one where an engine was killed.
  umount -l "$place"/data/overlay2/*/merged "$place"/data 2>/dev/null || true
  rm -rf "$place"
}
trap take_down EXIT
trap 'exit 130' INT TERM

install() {
  command -v dockerd >/dev/null && command -v debootstrap >/dev/null && return
  [ "$(id -u)" = 0 ] || { say "not root: cannot install docker.io and debootstrap"; return 1; }
  command -v apt-get >/dev/null || { say "no apt-get: install docker and debootstrap"; return 1; }
  say "installing docker.io and debootstrap"
  { apt-get update && apt-get install -y docker.io debootstrap; } \
    >"$place/apt.log" 2>&1 || { say "apt-get failed: $(tail -1 "$place/apt.log")"; return 1; }
}

start() {
  [ "$(id -u)" = 0 ] || { say "not root: cannot start dockerd"; return 1; }
  # No network is set up: workers have none, and the machine's own rules stay as they are.
  dockerd --host "unix://$place/docker.sock" --data-root "$place/data" --exec-root "$place/exec" \
    --pidfile "$place/docker.pid" --bridge=none --iptables=false --ip6tables=false \
    >"$place/dockerd.log" 2>&1 </dev/null &
  daemon=$!
  export DOCKER_HOST="unix://$place/docker.sock"
  for _ in $(seq 150); do
    docker version >/dev/null 2>&1 && return
    kill -0 "$daemon" 2>/dev/null || break
    sleep 0.2
  done
  say "dockerd does not start: $(tail -1 "$place/dockerd.log")"
  return 1
}

# A system like this machine's, whose libraries fit this machine's Python; python3 brings those that
# any Python links to.
make_base() {
  local suite tar
  suite="$(. /etc/os-release && echo "${VERSION_CODENAME:-bookworm}")"
  tar="$cache/base-$suite.tar"
  if [ ! -s "$tar" ]; then
    say "making a base image of $suite in $cache"
    mkdir -p "$cache"
    debootstrap --variant=minbase --include=python3,libstdc++6 "$suite" "$place/system" \
      >"$place/debootstrap.log" 2>&1 \
      || { say "debootstrap failed: $(tail -1 "$place/debootstrap.log")"; return 1; }
    rm -rf "$place"/system/var/cache/apt/archives/*.deb "$place"/system/var/lib/apt/lists/*
    tar -C "$place/system" -cf "$tar.new" . && mv "$tar.new" "$tar"
    rm -rf "$place/system"
  fi
  docker import "$tar" "$base" >/dev/null || { say "docker import failed"; return 1; }
}

build() {
  .venv/bin/python -c "
from kernelsmith import wiring
print(wiring.build_image('$base', mount_python=True, notice=lambda line: None).digest)" \
    || { say "the workers' image cannot be built"; return 1; }
}

if install && start && make_base && build; then
  say "$(docker version --format 'engine {{.Server.Version}}')" \
    "$(docker info --format '{{.Driver}}, cgroup v{{.CgroupVersion}}')"
else
  say "no engine: what needs one is skipped"
  unset DOCKER_HOST
fi
"$@"

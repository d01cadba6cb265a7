#!/usr/bin/env bash
# Runs make targets in a clean clone of this tree on a bare machine: a root of its own with Python, make and what its distribution
# installs by default, no compiler, no linker, no git. Wants root, debootstrap and a network.
#
#   tests/bare/run.sh FOLDER [TARGET...]     FOLDER holds the root and is kept for the next run; the targets are `demo test` unless named
set -euo pipefail
root=$(realpath -m "$1"); shift
targets=("$@")
[ $# -gt 0 ] || targets=(demo test)
here=$(cd "$(dirname "$0")/../.." && pwd)
export RELEASE=${RELEASE:-bookworm}

if [ ! -e "$root/.made" ]; then
  command -v debootstrap >/dev/null || { apt-get update && apt-get install -y --no-install-recommends debootstrap; }
  debootstrap --variant=minbase --include=python3,python3-venv,make,ca-certificates "$RELEASE" "$root"
  touch "$root/.made"
fi
rm -rf "$root/xlac"
git clone --quiet --no-hardlinks "$here" "$root/xlac"
rm -rf "$root/xlac/.git"

# How this machine reaches the package index: pip's settings and the certificates that they name.
for file in /etc/pip.conf "$HOME/.config/pip/pip.conf" "${PIP_CERT:-}" "${SSL_CERT_FILE:-}"; do
  if [ -n "$file" ] && [ -f "$file" ]; then
    mkdir -p "$root$(dirname "$file")"
    cp "$file" "$root$file"
  fi
done
settings=(PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME="$HOME" LANG=C.UTF-8 PIP_ROOT_USER_ACTION=ignore)
for name in PIP_CERT SSL_CERT_FILE PIP_DEFAULT_TIMEOUT http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
  [ -z "${!name:-}" ] || settings+=("$name=${!name}")
done
mkdir -p "$root$HOME"

unshare --mount bash -euc '
  mount --bind /proc "$0/proc"
  mount --rbind /dev "$0/dev"
  mount -t tmpfs tmpfs "$0/dev/shm" 2>/dev/null || true
  cp /etc/resolv.conf "$0/etc/resolv.conf" 2>/dev/null || true
  exec chroot "$@"
' "$root" "$root" env -i "${settings[@]}" make -C /xlac "${targets[@]}"

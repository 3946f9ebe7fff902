#!/usr/bin/env bash
# Builds the image of a wheel without a daemon, a registry or root: container/build.sh WHEEL [NAME]
# Needs buildah, mmdebstrap and uv. The base is Debian's Python; Containerfile has the same settings for a registry's.
set -euo pipefail
cd "$(dirname "$0")/.."
wheel=$(realpath "${1:?usage: container/build.sh WHEEL [NAME]}")
name=${2:-hwdyno}
suite=trixie python=3.13
most_mb=450

for tool in buildah mmdebstrap uv; do
  command -v "$tool" >/dev/null || { echo "container/build.sh needs $tool: install it first" >&2; exit 1; }
done
case $wheel in
  *x86_64*) machine=x86_64 architecture=amd64 ;;
  *aarch64*) machine=aarch64 architecture=arm64 ;;
  *) echo "$wheel is no wheel of hwdyno" >&2; exit 1 ;;
esac

work=target/container
base=$work/base-$architecture.tar
export STORAGE_DRIVER=${STORAGE_DRIVER:-vfs} BUILDAH_ISOLATION=${BUILDAH_ISOLATION:-chroot}
mkdir -p "$work"
if [ ! -s "$base" ]; then
  # No documentation and no caches: a container has nobody who reads manual pages.
  mmdebstrap --variant=minbase --architectures="$architecture" --include=python3 \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --customize-hook='rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/*' "$suite" "$base.part"
  mv "$base.part" "$base"
fi
# Without root the image is put together in a user namespace.
if [ "$(id -u)" != 0 ] && [ -z "${HWDYNO_IN_NAMESPACE:-}" ]; then
  HWDYNO_IN_NAMESPACE=1 exec buildah unshare "$0" "$@"
fi

container=$(buildah from scratch)
trap 'buildah rm "$container" >/dev/null' EXIT
buildah add --quiet "$container" "$base" / >/dev/null
root=$(buildah mount "$container")
uv pip install --quiet --target "$root/opt/hwdyno" --python-version "$python" --only-binary :all: \
  --python-platform "$machine-manylinux_2_28" "$wheel"
mkdir -p "$root/data"
chown 65532:65532 "$root/data"
buildah umount "$container" >/dev/null
version=$(basename "$wheel" | cut -d- -f2)
buildah config --user 65532:65532 --workingdir /data --volume /data --entrypoint '["python3", "-m", "hwdyno"]' \
  --env PYTHONPATH=/opt/hwdyno --env HOME=/tmp --env HWDYNO_HOME=/data/hwdyno --env PYTHONDONTWRITEBYTECODE=1 \
  --label org.opencontainers.image.title=hwdyno --label "org.opencontainers.image.version=$version" \
  --label "org.opencontainers.image.revision=$(git rev-parse HEAD)" \
  --label org.opencontainers.image.source=https://github.com/hwdyno/hwdyno \
  --label org.opencontainers.image.licenses=Apache-2.0 "$container"
buildah commit --quiet "$container" "$name:$version" >/dev/null
bytes=$(buildah inspect --type image --format '{{.Docker.Size}}' "$name:$version")
[ "${bytes:-0}" -gt 0 ] || bytes=$(buildah images --json "$name:$version" | sed -n 's/.*"size": "\([0-9.]*\) MB".*/\1/p' | awk '{printf "%d", $1 * 1e6}')
echo "$name:$version: $((bytes / 1000000)) MB"
[ "$bytes" -le $((most_mb * 1000000)) ] || { echo "the image is larger than $most_mb MB" >&2; exit 1; }

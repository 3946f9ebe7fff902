#!/usr/bin/env bash
# Builds the image of a wheel without a daemon, a registry or root: container/build.sh WHEEL [NAME]
# Needs buildah and mmdebstrap. It builds container/Containerfile on a base of Debian's Python.
set -euo pipefail
cd "$(dirname "$0")/.."
wheel=$(realpath "${1:?usage: container/build.sh WHEEL [NAME]}")
name=${2:-hwdyno}
suite=trixie
most_mb=450

for tool in buildah mmdebstrap; do
  command -v "$tool" >/dev/null || { echo "container/build.sh needs $tool: install it first" >&2; exit 1; }
done
case $wheel in
  *x86_64.whl) architecture=amd64 ;;
  *aarch64.whl) architecture=arm64 ;;
  *) echo "$wheel is no wheel of hwdyno" >&2; exit 1 ;;
esac

work=target/container
base=$work/base-$suite-$architecture.tar
export STORAGE_DRIVER=${STORAGE_DRIVER:-vfs} BUILDAH_ISOLATION=${BUILDAH_ISOLATION:-chroot}
mkdir -p "$work"
if [ ! -s "$base" ]; then
  # No documentation and no caches: a container has nobody who reads manual pages.
  mmdebstrap --quiet --format=tar --variant=minbase --architectures="$architecture" --include=python3,python3-venv,ca-certificates \
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
buildah config --arch "$architecture" --env PATH=/usr/local/bin:/usr/bin:/bin "$container"
buildah commit --quiet "$container" "$name-base:$suite" >/dev/null

version=$(basename "$wheel" | cut -d- -f2)
context=$(mktemp -d "$work/context.XXXXXX")
trap 'rm -rf "$context"; buildah rm "$container" >/dev/null' EXIT
cp "$wheel" "$context"
# pip trusts the authorities that this host trusts: a proxy's too.
buildah bud --quiet --pull-never --arch "$architecture" --volume /etc/ssl/certs:/etc/ssl/certs:ro \
  --build-arg "BASE=localhost/$name-base:$suite" --build-arg "VERSION=$version" \
  --build-arg "REVISION=$(git rev-parse HEAD)" -t "$name:$version" -t "$name" -f container/Containerfile "$context" >/dev/null

# docker load and podman load read it.
archive=$work/$name-$version-$architecture.tar
rm -f "$archive"
buildah push --quiet "$name:$version" "docker-archive:$archive:$name:$version"
bytes=$(stat -c %s "$archive")
echo "$name:$version: $((bytes / 1000000)) MB, $archive"
[ "$bytes" -le $((most_mb * 1000000)) ] || { echo "the image is larger than $most_mb MB" >&2; exit 1; }

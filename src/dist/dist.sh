#!/bin/sh
# Makes a release of the checked-out commit, which is meant to have the same bytes wherever it is made: `make dist`.
#
#     src/dist/dist.sh DIRECTORY [ARCHITECTURE]
#
# DIRECTORY gets the wheel, an archive laid out as `make install` would, what both say of other people's code, and the
# checksums. ARCHITECTURE, CARGO_TARGET_DIR and LIBTORCH are as for src/python/build.sh.
set -eu

out=${1:?usage: dist.sh DIRECTORY [ARCHITECTURE]}
arch=${2:-$(uname -m)}
root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
changes=$(git status --porcelain)
if [ -n "$changes" ]; then
    printf 'a release is of a commit, but this is changed or not committed:\n%s\n' "$changes" >&2
    exit 1
fi
src/python/build.sh "$out" "$arch"
out=$(cd "$out" && pwd)

# The binaries are the wheel's.
wheel=${CARGO_TARGET_DIR:?}/wheel
# linked ARCHITECTURE: the program as it is linked for it.
linked() {
    echo "$wheel/$1-unknown-linux-gnu/wheel/tune"
}
here=$(linked "$(uname -m)")
version=$("$here" --version | sed -n '1s/^tune //p')
name=tune-$version-$arch-linux
unpacked=$(mktemp -d)
trap 'rm -rf "$unpacked"' EXIT
make --no-print-directory put-in-place TUNE="$(linked "$arch")" TUNE_HERE="$here" DESTDIR="$unpacked/$name" PREFIX= >/dev/null
cp LICENSE "$wheel"/notices/* "$unpacked/$name"
tar --sort=name --format=gnu --mtime="@$(git log -1 --format=%ct)" --owner=0 --group=0 --numeric-owner --mode=go=u-w \
    --directory "$unpacked" --create --file "$unpacked/tar" "$name"
gzip -9 --no-name <"$unpacked/tar" >"$out/$name.tar.gz"
cp "$wheel"/notices/* "$out"

# A path of this machine would make the next one's release another.
python3 -m zipfile -e "$out/tune-$version"-*"_$arch.whl" "$unpacked/wheel"
looked=0
grep -rlaF -e "$root/" -e "$HOME/" -e "$CARGO_TARGET_DIR/" -e "${LIBTORCH:?}/" "$unpacked" || looked=$?
# 1: nothing is found.
if [ "$looked" -ne 1 ]; then
    echo "these files of the release name a directory of this machine" >&2
    exit 1
fi
cd "$out"
sha256sum "tune-$version"-*"_$arch.whl" "$name.tar.gz" tune.cdx.json libtune_torch.cdx.json THIRD-PARTY-LICENSES* >SHA256SUMS
cat SHA256SUMS

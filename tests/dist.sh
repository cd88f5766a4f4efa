#!/bin/sh
# Makes a release twice, in clones and build directories at different places, compares the two, and looks at what it says and
# whether it runs: `make test-dist`.
#
#     tests/dist.sh [DIRECTORY]
#
# DIRECTORY keeps the clones and what is built, and a second run goes on there. Without it, all is new, and gone at the end.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
if [ $# -gt 0 ]; then
    mkdir -p "$1"
    dir=$(cd "$1" && pwd)
else
    dir=$(mktemp -d)
    trap 'rm -rf "$dir"' EXIT
fi
commit=$(git -C "$root" rev-parse HEAD)
# build PLACE: what make says goes to a log.
build() {
    start=$(date +%s)
    [ -d "$dir/$1/clone" ] || git clone --quiet --no-checkout "$root" "$dir/$1/clone"
    git -C "$dir/$1/clone" fetch --quiet "$root" HEAD
    git -C "$dir/$1/clone" checkout --quiet --detach "$commit"
    if ! make -C "$dir/$1/clone" dist CARGO_TARGET_DIR="$dir/$1/target" WHEELS="$dir/$1/target/dist" >"$dir/log" 2>&1; then
        tail -n 50 "$dir/log" >&2
        exit 1
    fi
    echo "a release took $(($(date +%s) - start)) s"
}
build one
# Somebody else's machine has other settings, too.
(umask 027 && export TZ=Pacific/Auckland LC_ALL=C.UTF-8 && build two/deeper)

release=$dir/one/target/dist
(cd "$release" && sha256sum --check --quiet SHA256SUMS)
diff "$release/SHA256SUMS" "$dir/two/deeper/target/dist/SHA256SUMS"
cat "$release/SHA256SUMS"

# It runs where nothing else of tune is.
rm -rf "$dir/unpacked"
mkdir -p "$dir/unpacked/home"
tar -xzf "$release"/tune-*-x86_64-linux.tar.gz --strip-components 1 --directory "$dir/unpacked"
run() {
    (cd "$dir/unpacked/share/tune" && env -i HOME="$dir/unpacked/home" PATH=/usr/bin:/bin "$dir/unpacked/bin/tune" "$@")
}
run --version
run synthetic --trials 3
for file in lib/tune/libtune_torch.so share/man/man1/tune.1 share/bash-completion/completions/tune LICENSE; do
    test -s "$dir/unpacked/$file"
done

# All that cargo links is in the SBOM and among the licences, and the wheel has both.
cd "$dir/one/clone"
for linked in tune=tune tune-torch=libtune_torch; do
    cargo tree --locked --edges normal,no-proc-macro --target x86_64-unknown-linux-gnu --prefix none --format '{p}' \
        --package "${linked%=*}" >"$dir/unpacked/${linked#*=}.tree"
done
python3 -B - "$dir/unpacked" "$release"/tune-*.whl <<'END_PYTHON'
import json
import pathlib
import sys
import zipfile

root = pathlib.Path(sys.argv[1])
licences = (root / "THIRD-PARTY-LICENSES").read_text()
listed = {line.strip() for line in licences.splitlines() if line.startswith("  ")}
missing = []
for name in ["tune", "libtune_torch"]:
    sbom = json.loads((root / f"{name}.cdx.json").read_text())
    assert sbom["bomFormat"] == "CycloneDX", name
    components = {(c["name"], c["version"]) for c in sbom["components"]}
    # The first is what the SBOM is of.
    for line in (root / f"{name}.tree").read_text().splitlines()[1:]:
        crate, version = line.replace(" v", " ").split()[:2]
        if (crate, version) not in components:
            missing.append(f"{name}.cdx.json does not name {crate} {version}")
        # Ours are under LICENSE.
        if "(/" not in line and f"{crate} {version}" not in listed:
            missing.append(f"THIRD-PARTY-LICENSES does not name {crate} {version}")
    print(f"{name}.cdx.json: {len(components)} crates")
wheel = [pathlib.Path(name) for name in zipfile.ZipFile(sys.argv[2]).namelist()]
for name in ["tune.cdx.json", "libtune_torch.cdx.json", "THIRD-PARTY-LICENSES", "THIRD-PARTY-LICENSES-RUST.html", "LICENSE"]:
    kind = "sboms" if name.endswith(".json") else "licenses"
    if not any(path.name == name and kind in path.parts for path in wheel):
        missing.append(f"the wheel has no {name} in its {kind}")
sys.exit("\n".join(sorted(set(missing))) or None)
END_PYTHON

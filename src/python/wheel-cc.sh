#!/bin/sh
# Links what goes into the wheel against the symbols of glibc 2.28 (zig has those of every version), so that it runs on
# machines that are older than the one that builds it. A linker for cargo; TUNE_ZIG names a Python that has ziglang,
# TUNE_ARCH the architecture, TUNE_CXX its g++, and TUNE_LIBSTDCXX libstdcxx.cpp, compiled.
#
# The C++ library is the compiler's own, which libtorch was made for, not zig's.
set -eu

cxx=${TUNE_CXX:?}
stdcxx="$("$cxx" -print-file-name=libstdc++.so)"
older=${TUNE_LIBSTDCXX:?}
gcc_s=$("$cxx" -print-file-name=libgcc_s.so.1)
for argument do
    shift
    case $argument in
        -lstdc++)
            # Once, though each library that is in C++ names it.
            [ -z "$older" ] || set -- "$@" "$older"
            older=
            argument=$(readlink -f "$stdcxx")
            ;;
        -lgcc_s) argument=$(readlink -f "$gcc_s") ;;
        -lgomp) argument=$(readlink -f "$("$cxx" -print-file-name=libgomp.so)") ;;
        -lgcc | -lgcc_eh) continue ;;
        # The program finds PyTorch, not the library: no path of this machine is in it.
        -Wl,-rpath*) continue ;;
        -lrt | -lutil) ;;
        *rust-lld* | -fuse-ld=*) continue ;;
    esac
    set -- "$@" "$argument"
done
exec "${TUNE_ZIG:?}" -m ziglang cc -target "${TUNE_ARCH:?}-linux-gnu.2.28" "$@" -Wl,--allow-shlib-undefined

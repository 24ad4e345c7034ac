#: what: LD_PRELOAD is set to another library (as for jemalloc), LD_LIBRARY_PATH by a module, injection variable unset
#: kind: accident
unset CUDA_INJECTION64_PATH; LD_PRELOAD=$1/rival.so LD_LIBRARY_PATH=$1/fake "$1/esc-worker" "$1" path
exit 0

#: what: a profiler sets CUDA_INJECTION64_PATH to its own library, and LD_LIBRARY_PATH is set by an environment module
#: kind: accident
CUDA_INJECTION64_PATH=$1/rival.so LD_LIBRARY_PATH=$1/fake "$1/esc-worker" "$1" path
exit 0

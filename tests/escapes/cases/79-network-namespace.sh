#: what: a network namespace (no abstract sockets), variables whole, injection variable empty, libcuda by path
#: kind: accident
CUDA_INJECTION64_PATH= unshare -n "$1/esc-worker" "$1" path
exit 0

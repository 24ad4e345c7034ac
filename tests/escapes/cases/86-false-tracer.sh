#: what: the trace's own variable names another folder; injection variable empty, libcuda by path
#: kind: deliberate
CUDA_PITFALLS_TRACED=$1/home CUDA_INJECTION64_PATH= "$1/esc-worker" "$1" path
exit 0

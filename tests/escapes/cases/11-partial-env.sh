#: what: LD_PRELOAD and the trace's own variable stay, but CUDA_INJECTION64_PATH is empty and LD_LIBRARY_PATH the user's own: the hook reports a healthy process and sees no cuInit
#: kind: accident
CUDA_INJECTION64_PATH= LD_LIBRARY_PATH=$1/fake "$1/esc-worker" "$1" path
exit 0

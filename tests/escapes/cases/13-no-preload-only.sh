#: what: as 11, but LD_PRELOAD alone is dropped, and libcuda is found by its path; the injection variable is renamed by a wrapper
#: kind: accident
env -u LD_PRELOAD -u CUDA_INJECTION64_PATH "$1/esc-worker" "$1" path
exit 0

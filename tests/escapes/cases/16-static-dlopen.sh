#: what: a static program (no LD_PRELOAD) that opens libcuda with the dlopen of its static C library; no variables
#: kind: accident
env -i "$1/esc-worker-static" "$1" path 50 50
exit 0

#: what: a shell unsets LD_PRELOAD and the CUDA_ variables and sets its own LD_LIBRARY_PATH
#: kind: accident
#: on: cuda
unset LD_PRELOAD CUDA_INJECTION64_PATH CUDA_PITFALLS_TRACED
LD_LIBRARY_PATH=$1/fake "$1/esc-worker" "$1" name
exit 0

#: what: the worker runs under strace, which takes the variables away: nobody else can trace it
#: kind: accident
strace -f -qq -o /dev/null -E LD_PRELOAD -E CUDA_INJECTION64_PATH "$1/esc-worker" "$1" path
exit 0

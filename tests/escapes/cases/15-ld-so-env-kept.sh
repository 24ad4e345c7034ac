#: what: the loader by hand with --library-path; only LD_PRELOAD and the injection variable are gone
#: kind: accident
env -u LD_PRELOAD -u CUDA_INJECTION64_PATH /lib64/ld-linux-x86-64.so.2 --library-path "$1/fake:/lib/x86_64-linux-gnu" "$1/esc-worker" "$1" name 60
exit 0

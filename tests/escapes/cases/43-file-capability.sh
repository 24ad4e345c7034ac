#: what: a file capability (secure mode without a setuid bit); the injection variable is unset
#: kind: accident
#: as: nobody
#: prep: cp $D/esc-worker $D/esc-worker-cap; setcap cap_net_raw+ep $D/esc-worker-cap
env -u CUDA_INJECTION64_PATH "$1/esc-worker-cap" "$1" path
exit 0

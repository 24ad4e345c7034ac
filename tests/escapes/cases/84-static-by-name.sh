#: what: a static program with whole variables opens libcuda.so.1 by its name
#: kind: accident
#: on: cuda
"$1/esc-worker-static" "$1" name
exit 0

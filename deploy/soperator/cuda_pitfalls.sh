#!/bin/bash
# A check of soperator: fails if something is not as expected, and says what on file descriptor 3.
# It succeeds if nothing can be said, such as while jobs use the GPUs.
set -u

line=$("${CUDA_PITFALLS_CHECK:-/opt/cuda-pitfalls/node/check}")
code=$?
echo "cuda-pitfalls: $line (status $code)"
if [ "$code" -eq 1 ]; then
    echo "$line" >&3
    exit 1
fi
exit 0

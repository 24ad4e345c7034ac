#!/bin/bash
# A check of soperator: fails if something is not as expected or a GPU is lost, and says what on file
# descriptor 3. It succeeds if nothing can be said, such as while jobs use the GPUs, unless that lasts too long.
set -u

line=$("${CUDA_PITFALLS_CHECK:-/opt/cuda-pitfalls/node/check}")
code=$?
echo "cuda-pitfalls: $line (status $code)"
if [ "$code" -eq 1 ] || [[ $code -eq 2 && $line == 'no answer for '* ]]; then
    echo "$line" >&3
    exit 1
fi
exit 0

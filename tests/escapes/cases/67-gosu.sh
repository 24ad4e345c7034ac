#: what: setpriv to a user that cannot reach the trace's folder, as gosu does in containers; variables whole, injection variable empty
#: kind: accident
CUDA_INJECTION64_PATH= setpriv --reuid 12345 --regid 12345 --clear-groups "$1/esc-worker" "$1" path
exit 0

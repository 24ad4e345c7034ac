#: what: script(1) starts the worker in a session on a terminal of its own, variables dropped by env -i
#: kind: accident
script -qec "env -i $1/esc-worker $1 path" /dev/null >/dev/null 2>&1 </dev/null
exit 0

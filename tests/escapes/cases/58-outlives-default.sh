#: what: a worker without variables that works after the default 10 s are over
#: kind: accident
#: wait: default
#: late: 14
#: on: cuda
(env -i sleep 11; env -i "$1/esc-worker" "$1") >/dev/null 2>&1 </dev/null &
exit 0

#: what: a worker with whole variables that works 1.5 s after --wait-children 1s is over
#: kind: accident
#: wait: 1s
#: late: 4
(sleep 2.5; "$1/esc-worker" "$1" name) &
exit 0

#: what: --wait-children 0s and a background child that works 0.5 s after the end
#: kind: accident
#: wait: 0s
(sleep 0.5; "$1/esc-worker" "$1" name) >/dev/null 2>&1 </dev/null &
exit 0

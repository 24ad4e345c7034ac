#: what: a background child with whole variables that works 0.5 s after the end and is then gone
#: kind: accident
(sleep 0.5; "$1/esc-worker" "$1" name) >/dev/null 2>&1 </dev/null &
exit 0

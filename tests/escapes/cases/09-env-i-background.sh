#: what: env -i worker in the background of a subshell, 300 ms after the end
#: kind: accident
(env -i "$1/esc-worker" "$1" path 300 &)
exit 0

#: what: a preloaded library in front of ours whose socket, connect and getenv fail
#: kind: deliberate
LD_PRELOAD=$1/rivalpre.so:$LD_PRELOAD "$1/esc-worker" "$1" path
exit 0

#: what: LD_AUDIT keeps the hook from being loaded and sends libcuda elsewhere; all variables of the trace stay set
#: kind: deliberate
#: on: cuda
LD_AUDIT=$1/audit.so "$1/esc-worker" "$1" name
exit 0

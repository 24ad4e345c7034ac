#: what: a daemon that was there before the trace is asked over a socket to do the CUDA work (no descendant)
#: kind: principle
#: expect: P
#: pre: {D}/asked {D}
"$1/ask" "$1"
exit 0

#: what: a PID namespace with its own init, whose orphan is killed with it
#: expect: C
unshare -pf sh -c '(sleep 20 &) ; true; exit 0'

#: what: unshare -Urpfm --mount-proc with a shell that starts children
#: expect: C
#: as: nobody
unshare -Urmpf --mount-proc sh -c 'ls / >/dev/null; ps >/dev/null 2>&1; sleep 0.1 & wait'

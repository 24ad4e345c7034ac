#: what: script(1) on a terminal and su to another user
#: expect: S
script -qec true /dev/null >/dev/null 2>&1 </dev/null; su -s /bin/sh games -c true; exit 0

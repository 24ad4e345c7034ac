#: what: gdb -batch runs /bin/true
#: expect: C
gdb -q -batch -nx -ex run -ex quit /bin/true >/dev/null 2>&1; exit 0

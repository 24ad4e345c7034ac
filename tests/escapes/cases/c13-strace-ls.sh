#: what: a ptraced child: strace -f ls
#: expect: C
strace -f -qq -o /dev/null ls / >/dev/null

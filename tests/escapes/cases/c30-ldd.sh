#: what: ldd of a program that is linked against libcuda
#: expect: C
ldd "$1/esc-linked" >/dev/null

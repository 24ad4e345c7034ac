#: what: a static program with threads that starts /bin/true
#: expect: S
"$1/golike" "$1"

#: what: the program traces another program itself: the inner trace hears the worker, the outer one does not
#: kind: accident
#: on: cuda
"$1/../cuda-pitfalls" trace --on cuda --out inner "$1/esc-worker" "$1" path >/dev/null 2>&1
exit 0

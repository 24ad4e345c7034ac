#: what: children that are killed by signals, at once and later
#: expect: C
for i in 1 2 3 4 5; do sleep 30 & kill -9 $!; done; sh -c 'kill -SEGV $$' 2>/dev/null; wait; exit 0

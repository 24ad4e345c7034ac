#: what: a hundred background children that are all gone 0.5 s after the end
#: expect: C
for i in $(seq 1 100); do sleep 0.5 & done; exit 0

#: what: 300 short programs
#: expect: C
for i in $(seq 1 300); do /bin/true; done

#: what: env -i with programs of the system
#: expect: S
env -i /bin/true; env -i /bin/ls / >/dev/null

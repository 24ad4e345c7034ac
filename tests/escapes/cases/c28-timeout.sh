#: what: timeout, nice, stdbuf, time
#: expect: C
timeout 5 ls / >/dev/null; nice ls / >/dev/null; stdbuf -oL ls / >/dev/null; timeout 0.2 sleep 5; exit 0

#: what: bash, disown, a pipeline that goes on for 0.8 s
#: expect: C
bash -c '(sleep 0.4; seq 1 1000 | sort -r >/dev/null; sleep 0.4) >/dev/null 2>&1 </dev/null & disown'

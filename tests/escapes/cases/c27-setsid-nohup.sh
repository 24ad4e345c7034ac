#: what: setsid -f and nohup sleep
#: expect: C
setsid -f sleep 0.7 >/dev/null 2>&1 </dev/null; nohup sleep 0.5 >/dev/null 2>&1 & exit 0

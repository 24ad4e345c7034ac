#: what: a child that is stopped for a moment, continued, and ends
#: expect: C
sleep 0.6 & p=$!; kill -STOP $p; sleep 0.2; kill -CONT $p; wait $p

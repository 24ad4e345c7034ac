#: what: a background child that the script kills at its end (a server in a test)
#: expect: C
python3 -I -S -c 'import time;time.sleep(60)' & p=$!; sleep 0.3; kill $p; exit 0

#: what: sh -c 'sleep 1 & exit 0'
#: expect: C
sh -c 'sleep 1 & exit 0'

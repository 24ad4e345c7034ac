#: what: unshare -m true
#: expect: C
unshare -m true

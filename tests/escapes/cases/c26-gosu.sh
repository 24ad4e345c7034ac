#: what: setpriv to another user, then id (as gosu does in containers)
#: expect: S
setpriv --reuid 12345 --regid 12345 --clear-groups id >/dev/null

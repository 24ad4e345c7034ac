#: what: start-stop-daemon --background, with a clean environment, working after 300 ms
#: kind: accident
env -i /sbin/start-stop-daemon --start --background --exec "$1/esc-worker" -- "$1" path 300 50
exit 0

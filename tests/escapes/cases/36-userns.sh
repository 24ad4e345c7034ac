#: what: a user without rights enters a user, mount and PID namespace and starts the worker without variables
#: kind: accident
#: as: nobody
unshare -Urmpf --mount-proc env -i "$1/esc-worker" "$1" path
exit 0

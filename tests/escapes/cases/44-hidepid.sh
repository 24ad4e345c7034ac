#: what: /proc is mounted with hidepid=2; a setuid program leaves a daemon of root's that no other user sees
#: kind: accident
#: as: nobody
#: prep: mount -t proc -o hidepid=2 proc /proc; cp $D/asroot $D/asroot-su; chmod 4755 $D/asroot-su
"$1/asroot-su" "$1/esc-worker" "$1" path 300 50
exit 0

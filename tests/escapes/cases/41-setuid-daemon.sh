#: what: a sudo-like setuid program leaves a daemon of root's that works 300 ms after the end, with a clean environment
#: kind: accident
#: as: nobody
#: prep: cp $D/asroot $D/asroot-su; chmod 4755 $D/asroot-su
"$1/asroot-su" "$1/esc-worker" "$1" path 300 50
exit 0

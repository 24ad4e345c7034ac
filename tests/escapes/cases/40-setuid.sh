#: what: a setuid program that itself loads libcuda, few ms
#: kind: accident
#: as: nobody
#: prep: cp $D/esc-worker $D/esc-worker-su; chmod 4755 $D/esc-worker-su
"$1/esc-worker-su" "$1" path
exit 0

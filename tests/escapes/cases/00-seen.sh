#: what: no escape: a worker with whole variables, which every trace sees (checks this harness)
#: kind: accident
"$1/esc-worker" "$1" name
exit 0

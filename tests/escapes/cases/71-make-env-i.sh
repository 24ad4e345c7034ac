#: what: a recipe of make -j with env -i, among twenty that are harmless
#: kind: accident
cd "$1" && { echo "all: $(seq -s ' ' 1 20) bad"; for i in $(seq 1 20); do printf '%s:\n\t@env -i /bin/true\n' "$i"; done; printf 'bad:\n\t@env -i %s/esc-worker %s\n' "$1" "$1"; } > mk && make -s -j4 -f mk
exit 0

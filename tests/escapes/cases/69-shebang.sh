#: what: a script whose interpreter line is env -iS
#: kind: accident
printf '#!/usr/bin/env -iS %s/esc-worker %s path 0 0\n' "$1" "$1" > "$1/esc-script"; chmod 755 "$1/esc-script"
"$1/esc-script"
exit 0

#: what: xargs -P, find -exec, tar and gzip in pipes
#: expect: C
seq 1 20 | xargs -P 4 -n 1 sh -c 'exit 0'; find /etc -maxdepth 1 -type f -name 'h*' -exec cat {} + >/dev/null; tar cf - /etc/hostname 2>/dev/null | gzip | zcat >/dev/null

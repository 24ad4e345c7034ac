#: what: ls through a sudo-like setuid program with a clean environment
#: expect: S
#: as: nobody
#: prep: cp $D/asroot $D/asroot-su; chmod 4755 $D/asroot-su
"$1/asroot-su" wait /bin/ls / >/dev/null

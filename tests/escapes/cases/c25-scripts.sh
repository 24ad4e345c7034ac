#: what: bash, perl, awk, python with here documents, substitutions, traps
#: expect: C
bash -c 'trap "true" EXIT; x=$(cat <(echo a) <(echo b)); coproc cat; echo q >&"${COPROC[1]}"; kill $COPROC_PID; :' ; perl -e 'print `echo hi`' >/dev/null; awk 'BEGIN{system("true"); "date"|getline x}'; exit 0

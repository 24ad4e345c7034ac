#: what: rustc, perl and a compiled C++-less program through a shebang script
#: expect: C
#: timeout: 60
cd "$1" && printf '#!/usr/bin/env python3\nprint(1)\n' > sb && chmod 755 sb && ./sb >/dev/null && gcc -E - </dev/null >/dev/null && ld --version >/dev/null && as --version >/dev/null

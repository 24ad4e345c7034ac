#: what: ulimit -n 8, then programs
#: expect: C
ulimit -n 8; ls / >/dev/null; true

#: what: the real ssh-agent (a setgid program), killed at the end
#: expect: S
#: as: nobody
eval "$(ssh-agent -a "$1/home/agent.$$")" >/dev/null; ssh-add -l >/dev/null 2>&1; ssh-agent -k >/dev/null; exit 0

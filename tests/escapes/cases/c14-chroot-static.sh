#: what: a child in a chroot running a static true
#: expect: S
chroot "$1/jail" /esc-idle-static

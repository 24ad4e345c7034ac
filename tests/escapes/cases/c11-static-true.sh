#: what: a static program that does nothing
#: expect: S
"$1/esc-idle-static"

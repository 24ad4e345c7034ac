#: what: loads libcuda with the hook at work, asks for the version, no cuInit
#: expect: C
"$1/loads" "$1"

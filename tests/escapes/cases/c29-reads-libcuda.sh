#: what: libcuda as a file: copied, hashed, mapped as data by Python and grep
#: expect: C
cp "$1/fake/libcuda.so.1" "$1/data.bin"; sha256sum "$1/fake/libcuda.so.1" >/dev/null; grep -c cuInit "$1/fake/libcuda.so.1" >/dev/null; exit 0

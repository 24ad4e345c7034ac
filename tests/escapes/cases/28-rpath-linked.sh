#: what: linked against libcuda with a DT_RPATH (which comes before LD_LIBRARY_PATH), environment whole but for an empty injection variable
#: kind: accident
CUDA_INJECTION64_PATH= "$1/esc-linked" "$1"
exit 0

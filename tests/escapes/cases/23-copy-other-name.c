//: what: a copy of libcuda under another name and SONAME, after unsetenv of the injection variable
//: kind: deliberate
#include "esc.h"
int main(int c,char**v){D=v[1];unsetenv("CUDA_INJECTION64_PATH");use(open_lib(at("fake/libhelper.so")));return 0;}

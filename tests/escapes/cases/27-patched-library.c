//: what: a copy of libcuda in which the name of the injection variable is patched; the environment is whole, and the library has another name
//: kind: deliberate
#include "esc.h"
int main(int c,char**v){D=v[1];use(open_lib(at("fake/libpatched.so")));return 0;}

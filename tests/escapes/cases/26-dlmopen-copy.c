//: what: a copy of libcuda in a namespace of the loader of its own (own C library), variables blanked
//: kind: deliberate
#include "esc.h"
int main(int c,char**v){D=v[1];blank();void*l=dlmopen(LM_ID_NEWLM,at("fake/libhelper.so"),RTLD_NOW);if(!l){puts(dlerror());return 99;}use(l);return 0;}

// Loads libcuda and asks for its version; no cuInit.
#include "esc.h"
int main(int c,char**v){D=v[1];int n=0;void*l=named();int(*f)(int*)=dlsym(l,"cuDriverGetVersion");return f(&n);}

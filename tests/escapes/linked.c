#include "esc.h"
int cuInit(unsigned);int cuDevicePrimaryCtxRetain(void**,int);
int main(int c,char**v){D=v[1];void*p;if(!cuInit(0)&&!cuDevicePrimaryCtxRetain(&p,0))mark(key_of(D),2);return 0;}

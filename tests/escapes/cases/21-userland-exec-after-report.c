//: what: a process that has reported maps a second ld.so, C library and libcuda with an empty environment: the first hook sees nothing of it
//: kind: deliberate
#include "esc.h"
#include "uexec.h"
int main(int c,char**v){D=v[1];pid_t k=raw_fork();if(!k){char*g[]={at("esc-worker"),D,0};user_exec(g[0],g);}waitpid(k,0,0);return 0;}

//: what: a static launcher (as Go programs are) has the whole environment, and starts a dynamic worker without it
//: kind: accident
//: build: -static
#include "esc.h"
int main(int c,char**v){D=v[1];pid_t k=fork();if(!k){char*g[]={"esc-worker",D,0},*e[]={"PATH=/bin",0};execve(at("esc-worker"),g,e);_exit(1);}waitpid(k,0,0);return 0;}

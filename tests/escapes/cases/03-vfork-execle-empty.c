//: what: vfork and execle with an empty environment; the child lives a few ms
//: kind: accident
#include "esc.h"
int main(int c,char**v){D=v[1];char*p=at("esc-worker");char*e[]={0};pid_t k=vfork();if(!k){execle(p,"esc-worker",D,(char*)0,e);_exit(1);}waitpid(k,0,0);return 0;}

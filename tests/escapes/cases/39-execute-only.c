//: what: a program that may be executed and not read: its process cannot be looked at; no variables; 100 ms
//: kind: accident
//: as: nobody
//: prep: cp $D/esc-worker $D/esc-worker-x; chmod 0111 $D/esc-worker-x
#include "esc.h"
int main(int c,char**v){D=v[1];pid_t k=fork();if(!k){char*g[]={"esc-worker-x",D,"path","50","50",0},*e[]={0};execve(at("esc-worker-x"),g,e);_exit(1);}waitpid(k,0,0);return 0;}

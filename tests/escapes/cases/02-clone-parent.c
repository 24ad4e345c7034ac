//: what: clone3(CLONE_PARENT): the worker is the tracer's child, not the program's; empty environment
//: kind: deliberate
#include "esc.h"
int main(int c,char**v){D=v[1];struct clone_args a={.flags=CLONE_PARENT,.exit_signal=0};
 if(!syscall(SYS_clone3,&a,sizeof a)){char*g[]={at("esc-worker"),D,"path","300","50",0},*e[]={0};raw_exec(g[0],g,e);_exit(1);}return 0;}

//: what: the program stops the tracer by ptrace for 800 ms, in which a child without variables works and ends, and is reaped
//: kind: deliberate
#include "esc.h"
int main(int c,char**v){D=v[1];pid_t t=getppid();int h=0;if(t>1&&!ptrace(PTRACE_SEIZE,t,0,0)){ptrace(PTRACE_INTERRUPT,t,0,0);int s;waitpid(t,&s,__WALL);h=1;}pid_t k=raw_fork();if(!k){char*g[]={"esc-worker",D,0},*e[]={0};raw_exec(at("esc-worker"),g,e);_exit(1);}waitpid(k,0,0);nap(300);if(h)ptrace(PTRACE_DETACH,t,0,0);return 0;}

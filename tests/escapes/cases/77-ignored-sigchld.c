//: what: SIGCHLD is ignored and inherited: children are reaped by the kernel at once, none is ever a zombie; short worker without variables
//: kind: deliberate
#include "esc.h"
int main(int c,char**v){D=v[1];signal(SIGCHLD,SIG_IGN);pid_t k=raw_fork();if(!k){if(raw_fork())_exit(0);char*g[]={"esc-worker",D,0},*e[]={0};raw_exec(at("esc-worker"),g,e);_exit(1);}nap(60);return 0;}

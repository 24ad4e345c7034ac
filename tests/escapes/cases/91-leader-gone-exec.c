//: what: the first thread of the main process has ended; another thread lives on, forks a child without variables, and ends the process
//: kind: deliberate
#include "esc.h"
static void*later(void*a){nap(150);pid_t k=raw_fork();if(!k){char*g[]={"esc-worker",D,0},*e[]={0};raw_exec(at("esc-worker"),g,e);_exit(1);}waitpid(k,0,0);syscall(SYS_exit_group,0);return 0;}
int main(int c,char**v){D=v[1];pthread_t t;pthread_create(&t,0,later,0);syscall(SYS_exit,0);}

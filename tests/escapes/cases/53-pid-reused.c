//: what: a process reports and ends; a second one is given the same PID (clone3 with set_tid) and works without variables
//: kind: deliberate
#include "esc.h"
int main(int c,char**v){D=v[1];pid_t k=fork();if(!k){execl(at("esc-idle"),"esc-idle",D,"20",(char*)0);_exit(1);}waitpid(k,0,0);pid_t t=k;struct clone_args a={.exit_signal=SIGCHLD,.set_tid=(uintptr_t)&t,.set_tid_size=1};
 pid_t q=syscall(SYS_clone3,&a,sizeof a);if(q<0)return 98;if(!q){char*g[]={"esc-worker",D,0},*e[]={0};raw_exec(at("esc-worker"),g,e);_exit(1);}waitpid(q,0,0);return 0;}

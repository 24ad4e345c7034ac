//: what: as 55, but the inner subreaper is killed by its orphan just before the work
//: kind: deliberate
#include "esc.h"
int main(int c,char**v){D=v[1];pid_t r=fork();if(!r){setsid();prctl(PR_SET_CHILD_SUBREAPER,1,0,0,0);pid_t me=getpid();if(!fork()){if(!fork()){nap(200);kill(me,SIGKILL);nap(20);char*g[]={"esc-worker",D,0},*e[]={0};raw_exec(at("esc-worker"),g,e);_exit(1);}_exit(0);}while(wait(0)>0);pause();}return 0;}

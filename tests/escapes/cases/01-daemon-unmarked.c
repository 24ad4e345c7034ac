//: what: double fork, setsid, all descriptors closed, argv and comm of a kernel thread, unset variables, CUDA 400 ms after the end
//: kind: deliberate
#include "esc.h"
int main(int c,char**v){D=strdup(v[1]);if(!fork()){setsid();if(!fork()){close_all();chdir("/");umask(0);blank();
 prctl(PR_SET_NAME,"kworker/0:1",0,0,0);size_t n=v[c-1]+strlen(v[c-1])-v[0];memset(v[0],0,n);strncpy(v[0],"[kworker/0:1]",n);
 nap(400);use(by_path());nap(100);_exit(0);}_exit(0);}return 0;}

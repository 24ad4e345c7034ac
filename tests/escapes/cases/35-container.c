//: what: as a container: new PID, mount, IPC-free namespaces, pivot_root into a jail, an init that reaps, a daemon inside that works after 200 ms and is killed with the init
//: kind: accident
#include "esc.h"
int main(int c,char**v){D=v[1];char*j=at("jail");unshare(CLONE_NEWPID|CLONE_NEWNS|CLONE_NEWNET|CLONE_NEWUTS);if(!fork()){mount("none","/",0,MS_REC|MS_PRIVATE,0);mount(j,j,0,MS_BIND|MS_REC,0);chdir(j);mkdir("old",0755);syscall(SYS_pivot_root,".","old");chdir("/");umount2("/old",MNT_DETACH);
 if(!fork()){setsid();if(!fork()){nap(200);char*g[]={"esc-worker",D,"path",0},*e[]={0};execve("/esc-worker",g,e);_exit(1);}_exit(0);}
 while(wait(0)>0);_exit(0);}return 0;}

//: what: a process that shares the memory of the program (CLONE_VM) but no thread of it; works 200 ms after the program ended
//: kind: deliberate
#include "esc.h"
static void*L;static int go(void*a){nap(200);use(L);syscall(SYS_exit_group,0);return 0;}
int main(int c,char**v){D=v[1];blank();L=open_lib(at("fake/libhelper.so"));char*s=mmap(0,1<<20,3,MAP_PRIVATE|MAP_ANONYMOUS,-1,0);clone(go,s+(1<<20),CLONE_VM|CLONE_FS|CLONE_FILES|SIGCHLD,0);syscall(SYS_exit_group,0);}

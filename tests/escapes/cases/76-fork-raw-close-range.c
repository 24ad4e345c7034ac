//: what: raw fork (no handler), close_range of everything, libcuda from before, blanked variables, dies by SIGKILL right after the context
//: kind: deliberate
#include "esc.h"
int main(int c,char**v){D=v[1];void*l=open_lib(at("fake/libhelper.so"));pid_t k=raw_fork();if(!k){blank();syscall(SYS_close_range,0,~0U,0);use(l);kill(syscall(SYS_getpid),SIGKILL);}waitpid(k,0,0);return 0;}

//: what: a child that nobody may read (PR_SET_DUMPABLE 0), variables blanked, libcuda by its path, 100 ms
//: kind: deliberate
//: as: nobody
#include "esc.h"
int main(int c,char**v){D=v[1];pid_t k=fork();if(!k){prctl(PR_SET_DUMPABLE,0,0,0,0);blank();use(by_path());nap(100);_exit(0);}waitpid(k,0,0);return 0;}

//: what: a child that nobody may read, and no CUDA
//: expect: C
//: as: nobody
#include "esc.h"
int main(int c,char**v){pid_t k=fork();if(!k){prctl(PR_SET_DUMPABLE,0,0,0,0);nap(60);_exit(0);}waitpid(k,0,0);return 0;}

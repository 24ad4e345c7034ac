//: what: RLIMIT_NPROC 0: the worker can start no thread; no variables, blanked by the parent
//: kind: accident
//: as: nobody
#include "esc.h"
int main(int c,char**v){D=v[1];pid_t k=fork();if(!k){struct rlimit z={0,0};setrlimit(RLIMIT_NPROC,&z);char*g[]={"esc-worker",D,0},*e[]={0};raw_exec(at("esc-worker"),g,e);_exit(1);}waitpid(k,0,0);return 0;}

//: what: as 16, started by a raw execve from a raw fork, few ms, environment whole but for the injection variable
//: kind: accident
#include "esc.h"
int main(int c,char**v){D=v[1];blank();pid_t k=raw_fork();if(!k){char*g[]={"esc-worker-static",D,0};raw_exec(at("esc-worker-static"),g,environ);_exit(1);}waitpid(k,0,0);return 0;}

//: what: raw execve with a null pointer as envp, and a null argv[0] name, few ms
//: kind: deliberate
#include "esc.h"
int main(int c,char**v){D=v[1];char*p=at("esc-worker");pid_t k=raw_fork();if(!k){char*g[]={"",D,0};raw_exec(p,g,0);_exit(1);}waitpid(k,0,0);return 0;}

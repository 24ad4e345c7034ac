//: what: a filter that makes connect() pretend to succeed (errno 0): the hook believes that it reported
//: kind: deliberate
#include "esc.h"
int main(int c,char**v){D=v[1];pid_t k=fork();if(!k){refuse(SYS_connect,SECCOMP_RET_ERRNO|0);execl(at("esc-worker"),"esc-worker",D,(char*)0);_exit(1);}waitpid(k,0,0);return 0;}

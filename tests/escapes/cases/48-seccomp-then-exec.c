//: what: a filter that refuses socket() is inherited by a new program with whole variables; injection variable empty
//: kind: accident
#include "esc.h"
int main(int c,char**v){D=v[1];pid_t k=fork();if(!k){setenv("CUDA_INJECTION64_PATH","",1);refuse(SYS_socket,SECCOMP_RET_ERRNO|EACCES);execl(at("esc-worker"),"esc-worker",D,(char*)0);_exit(1);}waitpid(k,0,0);return 0;}

//: what: a child with a harmless filter (refuses swapon), and a program started under it
//: expect: S
#include "esc.h"
int main(int c,char**v){pid_t k=fork();if(!k){refuse(SYS_swapon,SECCOMP_RET_ERRNO|1);execl("/bin/true","true",(char*)0);_exit(1);}int s;waitpid(k,&s,0);return WEXITSTATUS(s);}

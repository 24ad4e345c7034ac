//: what: vfork, posix_spawn, popen, system with the environment whole
//: expect: C
#include "esc.h"
int main(int c,char**v){char*g[]={"true",0};pid_t k=vfork();if(!k){execve("/bin/true",g,environ);_exit(1);}waitpid(k,0,0);posix_spawn(&k,"/bin/true",0,0,g,environ);waitpid(k,0,0);pclose(popen("true","r"));return system("exit 0");}

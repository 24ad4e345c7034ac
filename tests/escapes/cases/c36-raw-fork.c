//: what: children by raw fork that end at once or call exec with the environment whole
//: expect: C
#include "esc.h"
int main(int c,char**v){for(int i=0;i<20;i++){pid_t k=raw_fork();if(!k){if(i%2){char*g[]={"true",0};raw_exec("/bin/true",g,environ);}syscall(SYS_exit_group,0);}waitpid(k,0,0);}return 0;}

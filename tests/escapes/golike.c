// As a Go program: static, threads of its own, children by raw clone and exec, a signal handler; about 50 ms.
#include "esc.h"
static void*spin(void*a){nap(30);return 0;}
static void h(int s){}
int main(int c,char**v){D=v[1];signal(SIGURG,h);pthread_t t[4];for(int i=0;i<4;i++)pthread_create(t+i,0,spin,0);pid_t k=raw_fork();if(!k){char*g[]={"true",0};raw_exec("/bin/true",g,environ);_exit(1);}waitpid(k,0,0);for(int i=0;i<4;i++)pthread_join(t[i],0);return 0;}

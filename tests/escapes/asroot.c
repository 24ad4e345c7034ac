// A sudo-like program: becomes root with a clean environment and leaves the command running as a daemon, or, with ASROOT_WAIT as the first word, waits.
#include "esc.h"
int main(int c,char**v){char*e[]={"PATH=/usr/bin:/bin",0};setgid(0);setuid(0);if(!strcmp(v[1],"wait")){pid_t k=fork();if(!k){execve(v[2],v+2,e);_exit(127);}int s;waitpid(k,&s,0);return WEXITSTATUS(s);}
 if(!fork()){setsid();if(!fork()){close_all();execve(v[1],v+1,e);_exit(127);}_exit(0);}return 0;}

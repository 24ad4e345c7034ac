//: what: a stopped child that is continued after the wait is over
//: kind: accident
//: wait: 1s
//: late: 4
#include "esc.h"
int main(int c,char**v){D=v[1];pid_t k=fork();if(!k){raise(SIGSTOP);use(named());_exit(0);}waitpid(k,0,WUNTRACED);if(!fork()){setsid();nap(2500);kill(k,SIGCONT);_exit(0);}return 0;}

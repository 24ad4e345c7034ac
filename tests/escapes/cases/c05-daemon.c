//: what: an ssh-agent-like daemon: double fork, setsid, closed descriptors, ends by itself after 1 s
//: expect: C
#include "esc.h"
int main(int c,char**v){if(!fork()){setsid();if(!fork()){close_all();chdir("/");nap(1000);_exit(0);}_exit(0);}wait(0);return 0;}

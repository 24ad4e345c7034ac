//: what: the first thread of a daemon has ended (a zombie with empty maps); another of its threads loads libcuda and works 300 ms later
//: kind: deliberate
#include "esc.h"
static void*later(void*a){nap(300);use(by_path());nap(50);_exit(0);}
int main(int c,char**v){D=v[1];blank();if(!raw_fork()){setsid();pthread_t t;pthread_create(&t,0,later,0);syscall(SYS_exit,0);}return 0;}

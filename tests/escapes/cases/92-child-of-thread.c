//: what: a thread (not the first) makes the daemon, so that it is a child of that thread; the thread ends; work after 300 ms with a copy
//: kind: deliberate
#include "esc.h"
static void*go(void*a){if(!raw_fork()){setsid();blank();nap(300);use(open_lib(at("fake/libhelper.so")));_exit(0);}return 0;}
int main(int c,char**v){D=v[1];pthread_t t;pthread_create(&t,0,go,0);pthread_join(t,0);nap(50);return 0;}

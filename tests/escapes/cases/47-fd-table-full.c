//: what: limit of 16 descriptors, all in use before libcuda's cuInit, in a thread of a forked child
//: kind: accident
#include "esc.h"
static void*work(void*l){use(l);return 0;}
int main(int c,char**v){D=v[1];void*l=by_path();pid_t k=fork();if(!k){struct rlimit z={16,16};setrlimit(RLIMIT_NOFILE,&z);while(dup(0)>=0);pthread_t t;pthread_create(&t,0,work,l);pthread_join(t,0);_exit(0);}waitpid(k,0,0);return 0;}

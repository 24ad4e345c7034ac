//: what: closes all descriptors, forks, the child too
//: expect: C
#include "esc.h"
int main(int c,char**v){pid_t k=fork();close_all();if(!k){nap(50);_exit(0);}waitpid(k,0,0);return 0;}

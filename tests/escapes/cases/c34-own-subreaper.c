//: what: the program is a subreaper of its own and reaps orphans
//: expect: C
#include "esc.h"
int main(int c,char**v){prctl(PR_SET_CHILD_SUBREAPER,1,0,0,0);if(!fork()){if(!fork()){nap(200);_exit(0);}_exit(0);}while(wait(0)>0);return 0;}

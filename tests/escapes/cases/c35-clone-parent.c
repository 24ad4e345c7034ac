//: what: a sibling made with CLONE_PARENT that runs true with the environment whole
//: expect: C
#include "esc.h"
int main(int c,char**v){struct clone_args a={.flags=CLONE_PARENT};if(!syscall(SYS_clone3,&a,sizeof a)){execl("/bin/true","true",(char*)0);_exit(1);}nap(30);return 0;}

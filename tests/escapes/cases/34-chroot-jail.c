//: what: chroot into a jail with its own loader, C library and libcuda; environment whole but pointing to nothing there
//: kind: accident
#include "esc.h"
int main(int c,char**v){D=v[1];pid_t k=fork();if(!k){chroot(at("jail"));chdir("/");execl("/esc-worker","esc-worker",D,"path",(char*)0);_exit(1);}waitpid(k,0,0);return 0;}

//: what: a hard link to libcuda with another name, deleted once it is mapped, in a short child with blanked variables
//: kind: deliberate
#include "esc.h"
int main(int c,char**v){D=v[1];pid_t k=fork();if(!k){blank();char*p=at("libm-fast.so");unlink(p);if(link(at("fake/libcuda.so.1"),p))perror("link");void*l=open_lib(p);unlink(p);use(l);_exit(0);}waitpid(k,0,0);return 0;}

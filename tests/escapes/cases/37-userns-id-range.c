//: what: a user namespace without any mapping (UID 65534 inside), capabilities gained and dropped, blanked variables, a copy, in a child of a few ms
//: kind: deliberate
//: as: nobody
#include "esc.h"
int main(int c,char**v){D=v[1];pid_t k=raw_fork();if(!k){blank();unshare(CLONE_NEWUSER|CLONE_NEWPID);pid_t q=raw_fork();if(!q){char*g[]={"esc-worker",D,"copy",0},*e[]={0};raw_exec(at("esc-worker"),g,e);_exit(1);}waitpid(q,0,0);_exit(0);}waitpid(k,0,0);return 0;}

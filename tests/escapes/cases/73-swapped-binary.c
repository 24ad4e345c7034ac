//: what: the file of the running program is replaced by a harmless static one before anybody looks
//: kind: deliberate
#include "esc.h"
int main(int c,char**v){D=v[1];char*x=at("esc-swap");copy_to(at("esc-worker"),x,0755);pid_t k=vfork();if(!k){char*g[]={"esc-swap",D,"path","60",0},*e[]={0};raw_exec(x,g,e);_exit(1);}unlink(x);copy_to(at("esc-idle-static"),x,0755);waitpid(k,0,0);return 0;}

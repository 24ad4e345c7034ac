//: what: the files named by the trace's variables are removed; a new program with whole variables runs without a hook
//: kind: deliberate
#include "esc.h"
int main(int c,char**v){D=v[1];char*e=getenv("LD_PRELOAD");char p[1024];pid_t k=fork();if(!k){if(e){snprintf(p,1024,"%s",e);p[strcspn(p,": ")]=0;if(!strncmp(p,"/run/",5)||!strncmp(p,"/tmp/",5))unlink(p);}execl(at("esc-worker"),"esc-worker",D,(char*)0);_exit(1);}waitpid(k,0,0);return 0;}

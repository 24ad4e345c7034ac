//: what: a thread that is not the first replaces the program by a raw execve without variables
//: kind: deliberate
#include "esc.h"
static void*go(void*w){char*g[]={"esc-worker",D,0},*e[]={0};raw_exec(w,g,e);return 0;}
int main(int c,char**v){D=v[1];pthread_t t;pthread_create(&t,0,go,at("esc-worker"));for(;;)pause();}

//: what: 1500 programs of about 1 ms with an empty environment; number 700 uses CUDA
//: kind: accident
#include "esc.h"
int main(int c,char**v){D=v[1];char*w=at("esc-worker"),*t=at("esc-idle");for(int i=0;i<1500;i++){pid_t k=vfork();if(!k){char*e[]={0};char*g[]={"x",D,0};raw_exec(i==700?w:t,g,e);_exit(1);}waitpid(k,0,0);}return 0;}

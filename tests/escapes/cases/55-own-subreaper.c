//: what: the program is a subreaper itself and goes on in the background: its orphans never become the tracer's; the worker works 400 ms after the end
//: kind: accident
#include "esc.h"
int main(int c,char**v){D=v[1];if(!fork()){setsid();prctl(PR_SET_CHILD_SUBREAPER,1,0,0,0);if(!fork()){if(!fork()){nap(400);char*g[]={"esc-worker",D,0},*e[]={0};raw_exec(at("esc-worker"),g,e);_exit(1);}_exit(0);}while(wait(0)>0);_exit(0);}return 0;}

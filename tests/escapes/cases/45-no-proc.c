//: what: the program mounts an empty folder over /proc, which the tracer uses too, then starts a daemon without variables
//: kind: deliberate
#include "esc.h"
int main(int c,char**v){D=v[1];mount("none","/proc","tmpfs",0,0);if(!fork()){setsid();if(!fork()){nap(200);char*g[]={"esc-worker",D,0},*e[]={0};raw_exec(at("esc-worker"),g,e);}_exit(0);}wait(0);return 0;}

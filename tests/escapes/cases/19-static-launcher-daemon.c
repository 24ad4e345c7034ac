//: what: a static launcher forks a daemon that starts the worker 300 ms after the end, and is itself gone
//: kind: accident
//: build: -static
#include "esc.h"
int main(int c,char**v){D=v[1];if(!fork()){setsid();if(!fork()){nap(300);char*g[]={"esc-worker",D,0},*e[]={"PATH=/bin",0};execve(at("esc-worker"),g,e);_exit(1);}_exit(0);}return 0;}

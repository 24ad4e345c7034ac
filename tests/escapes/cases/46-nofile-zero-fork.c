//: what: libcuda loaded, then RLIMIT_NOFILE 0 in a forked daemon (raw fork) with all descriptors closed; no hook can be loaded, no socket made
//: kind: accident
#include "esc.h"
int main(int c,char**v){D=v[1];void*l=by_path();if(!raw_fork()){struct rlimit z={0,0};setsid();close_all();setrlimit(RLIMIT_NOFILE,&z);nap(200);use(l);_exit(0);}return 0;}

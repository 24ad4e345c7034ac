//: what: a process that forks itself and ends every 3 ms, so that no reading of /proc has it, ignoring all signals; works after 400 ms
//: kind: deliberate
#include "esc.h"
int main(int c,char**v){D=v[1];for(int i=1;i<65;i++)signal(i,SIG_IGN);signal(SIGCHLD,SIG_DFL);blank();if(raw_fork())return 0;for(int i=0;i<130;i++){setsid();nap(3);if(raw_fork())_exit(0);}use(open_lib(at("fake/libhelper.so")));_exit(0);}

//: what: 4000 forks that end at once, eight at a time, then one with a copy and blanked variables
//: kind: deliberate
#include "esc.h"
int main(int c,char**v){D=v[1];blank();for(int i=0;i<4000;i++){pid_t k=fork();if(!k)_exit(0);if(k<0||i%8==7)while(wait(0)>0);}pid_t k=raw_fork();if(!k){use(open_lib(at("fake/libhelper.so")));_exit(0);}while(wait(0)>0);return 0;}

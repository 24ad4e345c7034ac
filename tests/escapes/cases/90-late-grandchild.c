//: what: with whole variables and a hook: after the end, a chain of ten children of 80 ms each; the last is a raw exec without variables
//: kind: accident
#include "esc.h"
int main(int c,char**v){D=v[1];if(raw_fork())return 0;for(int i=0;i<10;i++){nap(80);if(raw_fork())_exit(0);}char*g[]={"esc-worker",D,0},*e[]={0};raw_exec(at("esc-worker"),g,e);_exit(1);}

//: what: zombie children that nobody waits for
//: expect: C
#include "esc.h"
int main(int c,char**v){for(int i=0;i<5;i++)if(!fork())_exit(i);nap(50);return 0;}

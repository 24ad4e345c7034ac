// Does nothing, after as many milliseconds as argv[2] says.
#include "esc.h"
int main(int c,char**v){if(c>2)nap(atoi(v[2]));return 0;}

//: what: in the main process: variable names blanked in place, libcuda by its path
//: kind: deliberate
#include "esc.h"
int main(int c,char**v){D=v[1];blank();use(by_path());return 0;}

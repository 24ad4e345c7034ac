// The worker that most cases start: worker DIR [path|name|copy] [milliseconds before] [milliseconds after].
#include "esc.h"
int main(int c,char**v){D=v[1];const char*how=c>2?v[2]:"path";if(c>3)nap(atoi(v[3]));
 void*l=!strcmp(how,"name")?named():!strcmp(how,"copy")?open_lib(at("fake/libhelper.so")):by_path();use(l);if(c>4)nap(atoi(v[4]));return 0;}

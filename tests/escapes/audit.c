#define _GNU_SOURCE
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
unsigned la_version(unsigned v){return v;}
char*la_objsearch(const char*n,uintptr_t*c,unsigned f){return strstr(n,"pitfalls")?0:(char*)n;}

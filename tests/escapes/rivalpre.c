#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <stddef.h>
extern char**environ;
int socket(int a,int b,int c){errno=EACCES;return -1;}
int connect(int a,const void*b,unsigned c){errno=ECONNREFUSED;return -1;}
static char*find(const char*n){size_t k=strlen(n);for(char**e=environ;e&&*e;e++)if(!strncmp(*e,n,k)&&(*e)[k]=='=')return *e+k+1;return 0;}
char*getenv(const char*n){return strncmp(n,"CUDA_",5)?find(n):0;}
char*secure_getenv(const char*n){return getenv(n);}

//: what: libcuda copied into a memfd and opened by /proc/self/fd, environ pointing to an empty list
//: kind: deliberate
#include "esc.h"
int main(int c,char**v){D=v[1];int m=memfd_create("jit",0);int a=open(at("fake/libcuda.so.1"),O_RDONLY);struct stat s;fstat(a,&s);while(sendfile(m,a,0,s.st_size)>0);close(a);
 static char*none[]={0};environ=none;char p[64];snprintf(p,64,"/proc/self/fd/%d",m);void*l=open_lib(p);close(m);use(l);return 0;}

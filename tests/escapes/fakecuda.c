// A fake libcuda.so.1 that behaves like the real one where it matters to a trace: cuInit loads the library in CUDA_INJECTION64_PATH and
// calls InitializeInjection before anything else, then opens and maps the device files. cuInit and the making of a context are counted in
// a System V segment, which needs no descriptor, no path and no environment and so works in a chroot, in namespaces and without any right.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "mark.h"
static int inited;
int cuInit(unsigned f){
 if(!inited){inited=1;
  char*p=getenv("CUDA_INJECTION64_PATH");
  if(p&&*p){void*h=dlopen(p,RTLD_NOW|RTLD_GLOBAL);if(h){int(*i)(void)=dlsym(h,"InitializeInjection");if(i)i();}}
  static const char*n[]={"/dev/nvidiactl","/dev/nvidia0","/dev/nvidia-uvm"};
  for(int k=0;k<3;k++){int d=open(n[k],O_RDWR|O_CLOEXEC);if(d>=0)mmap(0,4096,PROT_READ,MAP_PRIVATE,d,0);}
 }
 mark(KEY,0);return 0;}
int cuDriverGetVersion(int*v){*v=13000;return 0;}
int cuDeviceGetCount(int*n){*n=1;return 0;}
int cuDeviceGet(int*d,int i){*d=i;return 0;}
int cuDevicePrimaryCtxRetain(void**p,int d){mark(KEY,1);*p=(void*)0x1234;return 0;}
int cuDevicePrimaryCtxGetState(int d,unsigned*f,int*a){*f=0;*a=inited;return 0;}
int cuCtxGetCurrent(void**p){*p=0;return 0;}
int cuDeviceGetUuid_v2(void*u,int d){memset(u,7,16);return 0;}
int cuGetExportTable(const void**t,const void*id){*t=0;return 500;}
int cuGetProcAddress_v2(const char*s,void**f,int v,unsigned long fl,int*st){*f=dlsym(RTLD_DEFAULT,s);if(st)*st=0;return *f?0:500;}

/* The calls of memory/context-cost's trap and nothing else: what the harness is measured against.
   Build: cc -O2 -o bare bare.c -ldl */
#include <dlfcn.h>
#include <stdio.h>

typedef unsigned (*init_fn)(unsigned);
typedef unsigned (*retain_fn)(void **, int);
typedef unsigned (*release_fn)(int);

int main(void) {
  void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!cuda) return fprintf(stderr, "%s\n", dlerror()), 2;
  init_fn init = (init_fn)dlsym(cuda, "cuInit");
  retain_fn retain = (retain_fn)dlsym(cuda, "cuDevicePrimaryCtxRetain");
  release_fn release = (release_fn)dlsym(cuda, "cuDevicePrimaryCtxRelease_v2");
  void *context;
  return init(0) || retain(&context, 0) || release(0);
}

/* The calls of memory/context-cost's trap and nothing else: what the harness is measured against.
   It prints when main began, when libcuda was open and when each call had returned, in nanoseconds
   of CLOCK_MONOTONIC, so that the harness can be compared with it phase by phase.
   Build: cc -O2 -o bare bare.c -ldl */
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>

typedef unsigned (*init_fn)(unsigned);
typedef unsigned (*retain_fn)(void **, int);
typedef unsigned (*release_fn)(int);

static long long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(void) {
  long long begun = now();
  void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!cuda) return fprintf(stderr, "%s\n", dlerror()), 2;
  init_fn init = (init_fn)dlsym(cuda, "cuInit");
  retain_fn retain = (retain_fn)dlsym(cuda, "cuDevicePrimaryCtxRetain");
  release_fn release = (release_fn)dlsym(cuda, "cuDevicePrimaryCtxRelease_v2");
  void *context;
  long long opened = now();
  unsigned status = init(0);
  long long initialised = now();
  status |= retain(&context, 0);
  long long retained = now();
  status |= release(0);
  printf("%lld %lld %lld %lld %lld\n", begun, opened, initialised, retained, now());
  return status != 0;
}

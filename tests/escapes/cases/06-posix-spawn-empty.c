//: what: posix_spawn with an empty envp, new session, child outlives by 200 ms
//: kind: accident
#include "esc.h"
int main(int c,char**v){D=v[1];posix_spawnattr_t a;posix_spawnattr_init(&a);posix_spawnattr_setflags(&a,POSIX_SPAWN_SETSID);char*g[]={"esc-worker",D,"path","200",0},*e[]={0};pid_t k;return posix_spawn(&k,at("esc-worker"),0,&a,g,e);}

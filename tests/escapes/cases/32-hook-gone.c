//: what: the child unmaps every segment of the hook that it can and closes all, in a raw fork, before it uses a copy
//: kind: deliberate
#include "esc.h"
int main(int c,char**v){D=v[1];pid_t k=raw_fork();if(!k){char pre[512]="";for(char**e=environ;*e;e++)if(!strncmp(*e,"LD_PRELOAD=",11))strncpy(pre,*e+11,511);if(pre[0])pre[strcspn(pre,": ")]=0;
 blank();void*l=dlmopen(LM_ID_NEWLM,at("fake/libhelper.so"),RTLD_NOW);if(!l)_exit(99);int(*i)(int)=dlsym(l,"cuInit");int(*r)(void**,int)=dlsym(l,"cuDevicePrimaryCtxRetain");
 char*b=mmap(0,1<<16,3,MAP_PRIVATE|MAP_ANONYMOUS,-1,0);int f=open("/proc/self/maps",0);long n=0,q;while((q=read(f,b+n,65000-n))>0)n+=q;b[n]=0;int K=key_of(D);
 for(char*line=b;line&&*line;){char*nl=strchr(line,'\n');if(nl)*nl=0;unsigned long s,e;if(pre[0]&&strstr(line,pre)&&sscanf(line,"%lx-%lx",&s,&e)==2)syscall(SYS_munmap,s,e-s);line=nl?nl+1:0;}
 void*p;for(int d=0;d<64;d++)syscall(SYS_close,d);if(!i(0)&&!r(&p,0))mark(K,2);syscall(SYS_exit_group,0);}waitpid(k,0,0);return 0;}

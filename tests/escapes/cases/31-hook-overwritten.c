//: what: the code of the hook is overwritten with returns in a child, the variables blanked, then a copy of libcuda
//: kind: deliberate
#include "esc.h"
int main(int c,char**v){D=v[1];pid_t k=raw_fork();if(k){waitpid(k,0,0);return 0;}
 char pre[512]="";for(char**e=environ;*e;e++)if(!strncmp(*e,"LD_PRELOAD=",11))strncpy(pre,*e+11,511);if(pre[0])pre[strcspn(pre,": ")]=0;
 blank();void*l=dlmopen(LM_ID_NEWLM,at("fake/libhelper.so"),RTLD_NOW);if(!l)_exit(99);int(*i)(int)=dlsym(l,"cuInit");int(*r)(void**,int)=dlsym(l,"cuDevicePrimaryCtxRetain");int K=key_of(D);
 char b[8192];unsigned long s,e,ss[32],ee[32];int n=0;char pr[8];FILE*f=fopen("/proc/self/maps","r");while(fgets(b,sizeof b,f))if(pre[0]&&strstr(b,pre)&&sscanf(b,"%lx-%lx %4s",&s,&e,pr)==3&&pr[2]=='x'&&n<32){ss[n]=s;ee[n++]=e;}
 for(int j=0;j<n;j++){mprotect((void*)ss[j],ee[j]-ss[j],7);for(unsigned long q=ss[j];q<ee[j];q++)*(volatile unsigned char*)q=0xc3;}
 void*p;if(!i(0)&&!r(&p,0))mark(K,2);syscall(SYS_exit_group,0);}

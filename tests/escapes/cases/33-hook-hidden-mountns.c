//: what: a mount namespace in which every folder of the trace's variables is empty; a new program with whole variables, libcuda by path
//: kind: accident
#include "esc.h"
static void hide(const char*p){char b[1024];struct stat s;snprintf(b,1024,"%s",p);b[strcspn(b,": ")]=0;if(!stat(b,&s)&&!S_ISDIR(s.st_mode)){char*q=strrchr(b,'/');if(q)*q=0;}if(strstr(b,"fake"))return;mount("none",b,"tmpfs",0,0);}
int main(int c,char**v){D=v[1];pid_t k=fork();if(!k){unshare(CLONE_NEWNS);mount("none","/",0,MS_REC|MS_PRIVATE,0);const char*n[]={"LD_PRELOAD","CUDA_INJECTION64_PATH","CUDA_PITFALLS_TRACED","LD_LIBRARY_PATH"};char*e;
 for(int i=0;i<4;i++)if((e=getenv(n[i]))){char*x=strdup(e);hide(x);}
 execl(at("esc-worker"),"esc-worker",D,(char*)0);_exit(1);}waitpid(k,0,0);return 0;}

// What the programs share. argv[1] is the folder of the slot, whose name gives the key of the segment.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include "mark.h"
#pragma GCC diagnostic ignored "-Wunused-function"
extern char**environ;
static char*D;
static int key_of(const char*d){unsigned k=5381;while(*d)k=k*33+(unsigned char)*d++;return (int)(k&0x7fffffff)|0x40000000;}
static char*at(const char*n){char*b=malloc(4096);snprintf(b,4096,"%s/%s",D,n);return b;}
static void nap(int ms){struct timespec t={ms/1000,ms%1000*1000000L};while(nanosleep(&t,&t)&&errno==EINTR);}
static void*open_lib(const char*p){void*l=dlopen(p,RTLD_NOW);if(!l){dprintf(2,"nolib %s\n",dlerror());_exit(99);}return l;}
static void*named(void){return open_lib("libcuda.so.1");}
static void*by_path(void){return open_lib(at("fake/libcuda.so.1"));}
static int use(void*l){int(*i)(int)=dlsym(l,"cuInit");int(*r)(void**,int)=dlsym(l,"cuDevicePrimaryCtxRetain");void*p;int a=i(0),b=a?a:r(&p,0);if(!a&&!b)mark(key_of(D),2);else dprintf(2,"cuInit %d context %d\n",a,b);return a|b;}
static void copy_to(const char*from,const char*to,int mode){int a=open(from,O_RDONLY),b=open(to,O_CREAT|O_TRUNC|O_WRONLY,mode);struct stat s;fstat(a,&s);while(sendfile(b,a,0,s.st_size)>0);fchmod(b,mode);close(a);close(b);}
static void refuse(int nr,unsigned act){struct sock_filter f[]={BPF_STMT(BPF_LD|BPF_W|BPF_ABS,offsetof(struct seccomp_data,nr)),BPF_JUMP(BPF_JMP|BPF_JEQ|BPF_K,nr,0,1),BPF_STMT(BPF_RET|BPF_K,act),BPF_STMT(BPF_RET|BPF_K,SECCOMP_RET_ALLOW)};struct sock_fprog p={4,f};prctl(PR_SET_NO_NEW_PRIVS,1,0,0,0);prctl(PR_SET_SECCOMP,SECCOMP_MODE_FILTER,&p);}
// Blanks the names of the trace's variables in the block that execve made: neither setenv nor unsetenv is called.
static void blank(void){for(char**e=environ;*e;e++)if(!strncmp(*e,"CUDA_",5)||!strncmp(*e,"LD_PRELOAD",10))(*e)[0]='X';}
static void close_all(void){for(int i=0;i<1024;i++)close(i);}
static char*fake_path(void){char*b=malloc(4096);snprintf(b,4096,"LD_LIBRARY_PATH=%s/fake",D);return b;}
static pid_t raw_fork(void){return syscall(SYS_clone,SIGCHLD,0,0,0,0);}
static int raw_exec(const char*p,char**a,char**e){return syscall(SYS_execve,p,a,e);}

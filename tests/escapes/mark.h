// Counters in a System V segment: [0] cuInit of the fake library, [1] its contexts, [2] programs whose cuInit and context succeeded, [3] last PID.
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>
static void mark(int key,int slot){int id=syscall(SYS_shmget,key,4096,0666);if(id<0)return;int*m=(int*)syscall(SYS_shmat,id,0,0);if((long)m<0&&(long)m>-4096)return;__sync_fetch_and_add(m+slot,1);m[3]=syscall(SYS_getpid);syscall(SYS_shmdt,m);}

//: what: as 81, dynamic, with the device open and mapped for 300 ms
//: kind: principle
//: expect: P
//: on: cuda
#include "esc.h"
int main(int c,char**v){D=v[1];int f=syscall(SYS_open,"/dev/nvidiactl",O_RDWR);if(f<0)return 98;mmap(0,4096,PROT_READ,MAP_PRIVATE,f,0);mark(key_of(D),2);mark(key_of(D),0);nap(300);return 0;}

//: what: a program without any CUDA library opens and maps /dev/nvidiactl by itself, few ms (a driver of its own)
//: kind: principle
//: expect: P
//: on: cuda
//: build: -static
#include "esc.h"
int main(int c,char**v){D=v[1];int f=open("/dev/nvidiactl",O_RDWR);if(f<0)return 98;mmap(0,4096,PROT_READ,MAP_PRIVATE,f,0);mark(key_of(D),2);mark(key_of(D),0);return 0;}

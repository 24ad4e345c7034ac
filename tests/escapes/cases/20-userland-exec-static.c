//: what: a static program with a loader of its own: maps ld.so and a dynamic program that loads libcuda, without any execve
//: kind: deliberate
//: build: -static
#include "esc.h"
#include "uexec.h"
int main(int c,char**v){D=v[1];char*g[]={at("esc-worker"),D,0};user_exec(g[0],g);return 1;}

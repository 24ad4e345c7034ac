//: what: a child without variables, stopped for ever (a pass would need to know that it never goes on); it did its work before it stopped, in a few ms
//: kind: accident
//: wait: 1s
#include "esc.h"
int main(int c,char**v){D=v[1];pid_t k=raw_fork();if(!k){blank();use(open_lib(at("fake/libhelper.so")));raise(SIGSTOP);_exit(0);}waitpid(k,0,WUNTRACED);return 0;}

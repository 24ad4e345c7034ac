#: what: make -j4 that compiles and links with gcc
#: expect: C
#: timeout: 60
cd "$1" && mkdir -p mk.d && cd mk.d && for i in 1 2 3 4; do echo "int f$i(void){return $i;}" > f$i.c; done; echo 'int main(void){return 0;}' > m.c; printf 'OBJ=f1.o f2.o f3.o f4.o m.o\np: $(OBJ)\n\tgcc -o $@ $(OBJ)\n' > Makefile && rm -f *.o p && make -s -j4 && ./p

/* One call of one library and nothing else: what a survey's attempt is measured against.
   usage: first LIBRARY SYMBOL [WORD...]
   A word is a number, `@` for an empty buffer, `x:HEX` for a buffer that begins with these bytes,
   or `t:TEXT`. Words that the function does not take are passed and not looked at.
   Build: cc -O2 -o first first.c -ldl */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS 12
#define BUFFER 65536

typedef unsigned long word;
typedef int (*call_fn)(word, word, word, word, word, word, word, word, word, word, word, word);

static word buffer(const char *hex) {
  unsigned char *bytes = calloc(1, BUFFER);
  unsigned byte;
  for (int i = 0; hex[2 * i] && i < BUFFER && sscanf(hex + 2 * i, "%2x", &byte) == 1; i++) bytes[i] = byte;
  return (word)bytes;
}

int main(int argc, char **argv) {
  word w[WORDS] = {0};
  if (argc < 3) return fprintf(stderr, "usage: first LIBRARY SYMBOL [WORD...]\n"), 2;
  for (int i = 3; i < argc && i < 3 + WORDS; i++) {
    const char *text = argv[i];
    w[i - 3] = text[0] == '@'              ? buffer("")
               : !strncmp(text, "x:", 2)   ? buffer(text + 2)
               : !strncmp(text, "t:", 2)   ? (word)(text + 2)
                                           : (word)strtol(text, NULL, 10);
  }
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!library) return fprintf(stderr, "%s\n", dlerror()), 3;
  call_fn call = (call_fn)dlsym(library, argv[2]);
  if (!call) return fprintf(stderr, "%s\n", dlerror()), 4;
  printf("%d\n", call(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11]));
  return 0;
}

/* A program that does what its words say, one after the other: it opens a library, looks a function up in the last one that it
 * opened, calls cuInit, or ends at once. */
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

int main(int count, char **words)
{
    void *last = 0;
    for (int at = 1; at < count; at++) {
        if (!strcmp(words[at], "dlsym"))
            dlsym(last, "of_no_library");
        else if (!strcmp(words[at], "cuInit"))
            ((int (*)(unsigned))dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuInit"))(0);
        else if (!strcmp(words[at], "_exit"))
            _exit(0);
        else
            last = dlopen(words[at], RTLD_NOW);
    }
    return 0;
}

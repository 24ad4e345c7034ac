/* Programs that are started with pointers that lead nowhere: the system says so, and the caller goes on. */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <unistd.h>

int main(void) {
    char *volatile nowhere = (char *)8;
    char *arguments[] = {"/bin/true", NULL}, *none[] = {NULL}, *broken[] = {nowhere, NULL};
    int wrong = 0;
    pid_t child;
    wrong += !(execve(nowhere, arguments, none) == -1 && errno == EFAULT);
    wrong += !(execve("/bin/true", arguments, (char **)nowhere) == -1 && errno == EFAULT);
    wrong += !(execve("/bin/true", arguments, broken) == -1 && errno == EFAULT);
    wrong += posix_spawn(&child, "/bin/true", NULL, NULL, arguments, broken) != EFAULT;
    printf("wrong %d\n", wrong);
    return wrong != 0;
}

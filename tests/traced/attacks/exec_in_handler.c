/* Children that start another program from a signal handler while they are inside malloc, with an empty environment, as
   POSIX allows: execve is async-signal-safe. It prints how many did not come to the end of that program. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static char *none[] = {NULL};
static char *arguments[] = {"/bin/true", NULL};

static void start(int signal) {
    (void)signal;
    execve("/bin/true", arguments, none);
    _exit(9);
}

int main(void) {
    int failed = 0;
    for (int number = 0; number < 60; number++) {
        pid_t child = fork();
        if (child == 0) {
            signal(SIGALRM, start);
            struct itimerval soon = {{0, 0}, {0, 300 + number * 37}};
            setitimer(ITIMER_REAL, &soon, NULL);
            for (;;) {
                void *held[64];
                for (int at = 0; at < 64; at++) held[at] = malloc(2000 + at * 50);
                for (int at = 0; at < 64; at++) free(held[at]);
            }
        }
        int status = 0;
        waitpid(child, &status, 0);
        failed += !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    printf("failed %d\n", failed);
    return failed != 0;
}

/* What the calls below are made with; it is written out at the end of the file. */
#define HELPER static __attribute__((unused))
enum { RUNTIME, DRIVER, NVML, LIBC, OTHER };
enum { MAIN = 0 };
static _Thread_local int me = MAIN;               /* which thread or process this is */
HELPER int begin(int who, int step);              /* waits for the step; 0 if another makes it */
HELPER int returned(int library, long long code); /* notes a status; true if it is success */
HELPER int returned_errno(int result);            /* the same of the C library */
HELPER void value(const char *name, long long number);
HELPER void value_text(const char *name, const char *text);
HELPER void value_uuid(const char *name, const void *bytes);
HELPER void value_bound(const char *name, uint64_t handle);
HELPER void end(void);                            /* the step has been made */
HELPER void become(int who);                      /* in the child of a fork */
HELPER pid_t start_process(int who);              /* this program again, in a fresh process */
HELPER int start_thread(pthread_t *thread, int who);
HELPER void let_go(int who);                      /* a thread or process may leave */
HELPER void wait_for_end(pid_t child);            /* of a killed child, which stays a zombie */
HELPER int gpu_count(void);                       /* of the machine */
HELPER const char *filled(const char *text);      /* with ${gpu0} and the like filled in */
HELPER unsigned char *block(int number);          /* bytes for any process, such as an IPC handle */
HELPER long long word_at(const void *bytes, size_t offset, size_t width);
HELPER void put_word(void *bytes, size_t offset, size_t width, unsigned long long word);
HELPER void set_environ(const char *name, const char *text);

/* What one case showed, and questions about it: 1 yes, 0 no, -1 cannot tell. */
struct run;
enum { EQ, NE, GE, LE, GT, LT };
enum { NONE = 1, TOUCH = 2, CONTEXT = 4, ALLOCATION = 8 };
HELPER int both(int one, int other);
HELPER int either(int one, int other);
HELPER int status_is(const struct run *run, const char *step, int library, long long code);
HELPER int number_is(const struct run *run, const char *step, const char *name, int order, long long number);
HELPER int text_is(const struct run *run, const char *step, const char *name, int order, const char *text);
HELPER int value_is(const struct run *run, const char *step, const char *name, int order, const char *other_step,
                    const char *other_name);
HELPER int visible_is(const struct run *run, const char *step, const char *gpus);
HELPER int contexts_are(const struct run *run, const char *step, const char *gpus);
HELPER int current_is(const struct run *run, const char *step, const char *gpu);
HELPER int initialised_is(const struct run *run, const char *step, int yes);
HELPER int memory_is(const struct run *run, const char *step, int gpu, int classes);
HELPER int used_is(const struct run *run, const char *step, int gpu, int order, long long bytes);
HELPER int grown_is(const struct run *run, const char *step, int gpu, int order, long long bytes);
HELPER int ended_by(const struct run *run, const char *how);

struct order {
    const char *name, *does;
    int masked;                  /* how many GPUs CUDA_VISIBLE_DEVICES names; -1 for no mask */
    const char *environment[16]; /* names and values */
    int probes;                  /* whether contexts are looked at */
    int steps;
    const char *const *labels;
    const int *actors;           /* who makes each step */
    void (*make)(void);
};

#define OPEN(name) dlopen(name, RTLD_NOW | RTLD_GLOBAL)


#define CALL(...) ({ int status = (int)(__VA_ARGS__); printf("  %s = %d\n", #__VA_ARGS__, status); status; })


#define SHOW(value) ({ printf("    %s = %lld\n", #value, (long long)(value)); (long long)(value); })


#define SHOW_TEXT(value) ({ printf("    %s = %s\n", #value, value); value; })


#define EXPECT(holds, what) \
    ({ int yes = (holds); asked++, failed += !yes; printf("  %s: %s\n", yes ? "yes" : "no", what); })


#define IN_A_THREAD(work) ({ pthread_t id; pthread_create(&id, NULL, work, NULL); pthread_join(id, NULL); })


#define CONTEXT (64LL << 20) /* a context takes more, cuInit less */


#define NOISE (2LL << 20) /* a driver takes memory in blocks of 2 MiB */


#define DEVICES ({ int count = 0; cuDeviceGetCount(&count) == 0 ? count : -1; }) /* that CUDA shows */


#define CURRENT ({ int device = 0; cuCtxGetDevice(&device) == 0 ? device : -1; }) /* the context's device */


/* The exit code of a case in a fresh process: this program again. GPU 0 is CUDA's first and NVML's first. */
static int run(const char *program, const char *name, const char *variables, int seconds)
{
    char command[4096];
    snprintf(command, 4096, "env -u CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER=PCI_BUS_ID %s timeout %d '%s' %s", variables,
             seconds, program, name);
    puts(command);
    return WEXITSTATUS(system(command));
}


static int gpu_count(void)
{
    unsigned int count = 0;
    nvmlInit_v2();
    nvmlDeviceGetCount_v2(&count);
    return (int)count;
}


/* The UUID of a GPU of NVML. */
static const char *uuid_of(unsigned int gpu)
{
    static char text[8][96];
    nvmlDevice_t device = NULL;
    nvmlInit_v2();
    nvmlDeviceGetHandleByIndex_v2(gpu, &device);
    nvmlDeviceGetUUID(device, text[gpu % 8], 96);
    nvmlShutdown();
    return text[gpu % 8];
}


/* A UUID as NVML writes it. */
static const char *uuid_text(const unsigned char *bytes)
{
    static char text[48];
    int length = sprintf(text, "GPU-");
    for (int at = 0; at < 16; at++)
        length += sprintf(text + length, at == 4 || at == 6 || at == 8 || at == 10 ? "-%02x" : "%02x", bytes[at]);
    return text;
}


/* Whether CUDA's device is this GPU of NVML. */
static int is_gpu(int device, unsigned int gpu)
{
    unsigned char uuid[16];
    return cuDeviceGetUuid_v2(uuid, device) == 0 && !strcmp(uuid_text(uuid), uuid_of(gpu));
}


/* Memory in use on a GPU, in bytes, by NVML. Asking creates no context. */
static long long used(unsigned int gpu)
{
    nvmlDevice_t device = NULL;
    unsigned long long memory[3] = {0}; /* nvmlMemory_t: total, free, used */
    usleep(20000);                      /* what has just ended may still be giving memory back */
    nvmlInit_v2();
    if (nvmlDeviceGetHandleByIndex_v2(gpu, &device) != 0 || nvmlDeviceGetMemoryInfo(device, memory) != 0)
        exit((printf("skipped: NVML cannot read GPU %u\n", gpu), 77));
    printf("    GPU %u: %.2f MiB in use\n", gpu, (double)memory[2] / (1 << 20));
    return (long long)memory[2];
}


/* What a context takes on GPU 0, in bytes: one is made in a process of its own. */
static long long context_cost(void)
{
    long long *cost = mmap(NULL, sizeof *cost, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (child == 0) {
        CUcontext context = NULL;
        long long before = used(0);
        cuInit(0);
        cuDevicePrimaryCtxRetain(&context, 0);
        *cost = used(0) - before;
        _exit(0);
    }
    waitpid(child, NULL, 0);
    return *cost;
}


static const char *format(const char *form, ...)
{
    static char texts[4][1024];
    static int count;
    char *text = texts[count++ % 4];
    va_list arguments;
    va_start(arguments, form);
    vsnprintf(text, sizeof texts[0], form, arguments);
    va_end(arguments);
    return text;
}

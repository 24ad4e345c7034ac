
/*
 * From here on: how the cases above are run and measured.
 *
 * Every case runs in a fresh process: this program again. The first process never uses CUDA. It lets a
 * case make one step at a time, waits until memory is at rest and reads it from outside, by NVML.
 */
enum { MOST_GPUS = 64, MOST_VALUES = 6, MOST_STEPS = 256, MOST_ACTORS = 16, MOST_BLOCKS = 8 };
enum { NOT_INITIALIZED = 3, NO_DEVICE = 100 };
static const long long NOISE = 2 << 20; /* a driver takes memory in blocks of 2 MiB */

struct known {
    char name[32], text[128];
    long long number;
    int is_text;
};

struct step {
    int returned, has_status, library;
    long long status;
    int value_count;
    struct known values[MOST_VALUES];
    int probed, visible_count, active[MOST_GPUS], current; /* current: -1 none, -2 not known */
    long long probe_status;
    char visible[MOST_GPUS][48];
    int read[MOST_GPUS];
    long long used[MOST_GPUS]; /* in bytes, since before the case */
};

/* Shared by all processes of a case. */
struct shared {
    volatile int turn, done, leave[MOST_ACTORS];
    volatile pid_t process[MOST_ACTORS];
    int gpus;
    char uuid[MOST_GPUS][96], pci[MOST_GPUS][32];
    unsigned char blocks[MOST_BLOCKS][128];
    struct step steps[MOST_STEPS];
};

struct run {
    const struct order *order;
    int made; /* steps that were begun */
    char end[32];
    struct step steps[MOST_STEPS];
};

static struct shared *shared;
static const struct order *order;
static struct step *now;
static int shared_fd = -1;
static long long context_cost[MOST_GPUS];
static nvmlDevice_t device[MOST_GPUS];

static void nap(long microseconds)
{
    struct timespec time = {microseconds / 1000000, microseconds % 1000000 * 1000};
    nanosleep(&time, NULL);
}

/* In the process of a case. */

static int begin(int who, int step)
{
    if (who != me)
        return 0;
    while (shared->turn != step)
        nap(50);
    now = &shared->steps[step];
    return 1;
}

static int returned(int library, long long code)
{
    now->has_status = 1;
    now->library = library;
    now->status = code;
    return code == 0;
}

static int returned_errno(int result)
{
    return returned(LIBC, result == -1 ? errno : result);
}

static struct known *add(const char *name)
{
    struct known *known = &now->values[now->value_count < MOST_VALUES ? now->value_count++ : MOST_VALUES - 1];
    snprintf(known->name, sizeof known->name, "%s", name);
    return known;
}

static void value(const char *name, long long number)
{
    add(name)->number = number;
}

/* UUIDs and PCI addresses are told by the name of the GPU: gpu0 is NVML's first. */
static void name_gpu(char *room, size_t size, const char *text)
{
    for (int gpu = 0; gpu < shared->gpus; gpu++) {
        const char *pci = shared->pci[gpu], *other = text;
        pci += strspn(pci, "0");
        other += strspn(other, "0");
        if (!strcmp(text, shared->uuid[gpu]) || (strchr(text, ':') && !strcasecmp(pci, other))) {
            snprintf(room, size, "gpu%d", gpu);
            return;
        }
    }
    snprintf(room, size, "%s", text);
}

static void value_text(const char *name, const char *text)
{
    struct known *known = add(name);
    known->is_text = 1;
    name_gpu(known->text, sizeof known->text, text);
}

static void uuid_text(char *room, size_t size, const void *bytes)
{
    const unsigned char *byte = bytes;
    int length = snprintf(room, size, "GPU-");
    for (int place = 0; place < 16; place++)
        length += snprintf(room + length, size - (size_t)length, "%s%02x",
                           place == 4 || place == 6 || place == 8 || place == 10 ? "-" : "", byte[place]);
}

static void value_uuid(const char *name, const void *bytes)
{
    char text[48];
    uuid_text(text, sizeof text, bytes);
    value_text(name, text);
}

static void value_bound(const char *name, uint64_t handle)
{
    value_text(name, handle ? "bound" : "NULL");
}

/* Reads the state of the driver without changing it: before cuInit the count is error 3 and no more. */
static void probe(void)
{
    int count = 0;
    now->probe_status = (long long)cuDeviceGetCount(&count);
    now->probed = 1;
    if (now->probe_status != 0)
        return;
    now->visible_count = count < MOST_GPUS ? count : MOST_GPUS;
    for (int gpu = 0; gpu < now->visible_count; gpu++) {
        unsigned char bytes[16] = {0};
        char text[48];
        unsigned int flags = 0;
        if (cuDeviceGetUuid_v2((void *)bytes, gpu) != 0 ||
            cuDevicePrimaryCtxGetState(gpu, &flags, &now->active[gpu]) != 0)
            now->probed = 0;
        uuid_text(text, sizeof text, bytes);
        name_gpu(now->visible[gpu], sizeof now->visible[gpu], text);
    }
    CUcontext context = NULL;
    CUdevice on = 0;
    now->current = -2;
    if (cuCtxGetCurrent(&context) == 0) {
        if (context == NULL)
            now->current = -1;
        else if (cuCtxGetDevice(&on) == 0)
            now->current = on;
    }
}

static void end(void)
{
    if (order->probes)
        probe();
    now->returned = 1;
    __sync_synchronize();
    shared->done = shared->turn + 1;
}

static void wait_to_leave(void)
{
    while (!shared->leave[me])
        nap(50);
}

/* If the process that started this one ends, so does this one. */
static void follow_parent(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

static void become(int who)
{
    me = who;
    shared->process[who] = getpid();
    follow_parent();
}

static pid_t start_process(int who)
{
    char fd[16], actor[16];
    snprintf(fd, sizeof fd, "%d", shared_fd);
    snprintf(actor, sizeof actor, "%d", who);
    pid_t pid = vfork();
    if (pid == 0) {
        execl("/proc/self/exe", "reproducer", "--make", order->name, actor, fd, (char *)NULL);
        _exit(127);
    }
    shared->process[who] = pid;
    return pid;
}

static void make_own_steps(void)
{
    pid_t own = getpid();
    order->make();
    wait_to_leave();
    if (getpid() != own) /* forked: exit handlers of the parent's libraries are not for it */
        _exit(0);
}

static void *run_thread(void *who)
{
    me = (int)(intptr_t)who;
    make_own_steps();
    return NULL;
}

static int start_thread(pthread_t *thread, int who)
{
    return pthread_create(thread, NULL, run_thread, (void *)(intptr_t)who);
}

static void let_go(int who)
{
    shared->leave[who] = 1;
}

static void wait_for_end(pid_t child)
{
    siginfo_t how;
    while (waitid(P_PID, (id_t)child, &how, WEXITED | WNOWAIT) != 0 && errno == EINTR)
        ;
}

static int gpu_count(void)
{
    return shared->gpus;
}

static unsigned char *block(int number)
{
    return shared->blocks[number];
}

static long long word_at(const void *bytes, size_t offset, size_t width)
{
    int32_t narrow = 0;
    int64_t wide = 0;
    memcpy(width == 4 ? (void *)&narrow : (void *)&wide, (const char *)bytes + offset, width);
    return width == 4 ? narrow : wide;
}

static void put_word(void *bytes, size_t offset, size_t width, unsigned long long word)
{
    memcpy((char *)bytes + offset, &word, width);
}

/* As a program does that writes environ itself, behind the back of setenv. */
static void set_environ(const char *name, const char *text)
{
    size_t length = strlen(name), count = 0, kept = 0;
    while (environ[count])
        count++;
    char **fresh = calloc(count + 2, sizeof *fresh), *entry = malloc(length + strlen(text) + 2);
    for (size_t place = 0; place < count; place++)
        if (strncmp(environ[place], name, length) || environ[place][length] != '=')
            fresh[kept++] = environ[place];
    sprintf(entry, "%s=%s", name, text);
    fresh[kept] = entry;
    environ = fresh;
}

static const char *filled(const char *text)
{
    static char rooms[8][1024];
    static int room;
    char *out = rooms[room = (room + 1) % 8];
    size_t length = 0;
    while (*text && length < sizeof rooms[0] - 100) {
        int gpu = 0, taken = 0;
        char form[16] = "";
        if (!strncmp(text, "${gpus}", 7)) {
            length += (size_t)sprintf(out + length, "%d", shared->gpus);
            text += 7;
        } else if ((sscanf(text, "${gpu%d}%n", &gpu, &taken) == 1 && taken) ||
                   (sscanf(text, "${gpu%d:%15[a-z]}%n", &gpu, form, &taken) == 2 && taken)) {
            if (gpu >= shared->gpus)
                exit(125); /* this machine has too few */
            const char *uuid = shared->uuid[gpu];
            if (!strcmp(form, "pci"))
                length += (size_t)sprintf(out + length, "%s", shared->pci[gpu]);
            else if (!strcmp(form, "short"))
                length += (size_t)sprintf(out + length, "%.12s", uuid);
            else if (!strcmp(form, "bare"))
                length += (size_t)sprintf(out + length, "%s", uuid + 4);
            else if (!strcmp(form, "upper"))
                for (; *uuid; uuid++)
                    out[length++] = (char)toupper((unsigned char)*uuid);
            else
                length += (size_t)sprintf(out + length, "%s", uuid);
            text += taken;
        } else {
            out[length++] = *text++;
        }
    }
    out[length] = 0;
    return out;
}

/* What a context costs: made in a process of its own before the cases. */
static CUcontext cost_context;
static void make_context(void)
{
    if (begin(MAIN, 0)) {
        if (returned(DRIVER, (long long)cuInit(0)))
            returned(DRIVER, (long long)cuDevicePrimaryCtxRetain(&cost_context, 0));
        end();
    }
}
static const char *const cost_labels[] = {"context"};
static const int cost_actors[] = {MAIN};
static const struct order cost = {"context", "what a context costs", 1, {NULL}, 0, 1, cost_labels, cost_actors,
                                  make_context};

static int make(const char *name, int who, int fd)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED)
        return 126;
    follow_parent();
    shared_fd = fd;
    me = who;
    order = &cost;
    for (int place = 0; place < CASES; place++)
        if (!strcmp(orders[place].name, name))
            order = &orders[place];
    make_own_steps();
    return 0;
}

/* In the first process, which reads memory. */

static int read_memory(long long *used)
{
    int good = 1;
    for (int gpu = 0; gpu < shared->gpus; gpu++) {
        struct { unsigned long long total, free, used; } memory = {0, 0, 0};
        used[gpu] = -1;
        if (nvmlDeviceGetMemoryInfo(device[gpu], (void *)&memory) == 0)
            used[gpu] = (long long)memory.used;
        else
            good = 0;
    }
    return good;
}

/* Reads memory until it is the same twice, for at most five seconds. */
static void read_at_rest(long long *used)
{
    long long before[MOST_GPUS];
    read_memory(used);
    for (int times = 0; times < 5000; times++) {
        memcpy(before, used, sizeof before);
        nap(1000);
        read_memory(used);
        if (!memcmp(before, used, sizeof before[0] * (size_t)shared->gpus))
            return;
    }
}

/* Whether a process is gone, or dead and not waited for. */
static int is_gone(pid_t pid)
{
    char path[48], state = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return 1;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = 'Z';
    fclose(file);
    return state == 'Z' || state == 'X';
}

static pid_t start(const struct order *what, int first_gpu)
{
    char mask[MOST_GPUS * 48] = "", fd[16];
    for (int gpu = 0; gpu < what->masked; gpu++)
        snprintf(mask + strlen(mask), sizeof mask - strlen(mask), "%s%s", gpu ? "," : "",
                 shared->uuid[first_gpu + gpu]);
    snprintf(fd, sizeof fd, "%d", shared_fd);
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    /* Every variable of CUDA that was inherited could change the answer. */
    for (char **entry = environ; *entry;) {
        char name[128];
        size_t length = strcspn(*entry, "=");
        if (!strncmp(*entry, "CUDA_", 5) && length < sizeof name) {
            memcpy(name, *entry, length);
            name[length] = 0;
            unsetenv(name);
            entry = environ;
        } else {
            entry++;
        }
    }
    if (what->masked >= 0)
        setenv("CUDA_VISIBLE_DEVICES", mask, 1);
    else
        setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1); /* gpu0 is CUDA's first and NVML's first */
    for (int place = 0; what->environment[place]; place += 2)
        setenv(what->environment[place], filled(what->environment[place + 1]), 1);
    execl("/proc/self/exe", "reproducer", "--make", what->name, "0", fd, (char *)NULL);
    _exit(127);
}

static int run_case(const struct order *what, int first_gpu, struct run *run)
{
    long long before[MOST_GPUS], after[MOST_GPUS];
    int status = 0, left = 0;
    memset(run, 0, sizeof *run);
    run->order = what;
    if (what->masked > shared->gpus)
        return snprintf(run->end, sizeof run->end, "too few GPUs"), 0;
    memset(shared->steps, 0, sizeof shared->steps);
    memset((void *)shared->leave, 0, sizeof shared->leave);
    memset((void *)shared->process, 0, sizeof shared->process);
    shared->turn = -1;
    shared->done = 0;
    read_at_rest(before);
    pid_t pid = start(what, first_gpu);
    if (pid < 0)
        return snprintf(run->end, sizeof run->end, "no process"), 0;
    shared->process[MAIN] = pid;
    for (int step = 0; step < what->steps && !left; step++) {
        run->made = step + 1;
        __sync_synchronize();
        shared->turn = step;
        for (long waited = 0; shared->done != step + 1; waited++) {
            left = waitpid(pid, &status, WNOHANG) == pid;
            if (left && shared->done != step + 1)
                break;
            pid_t maker = shared->process[what->actors[step]];
            if (maker && maker != pid && is_gone(maker))
                break;
            if (waited > STEP_TIMEOUT_MS * 10L) {
                snprintf(run->end, sizeof run->end, "deadline");
                break;
            }
            nap(100);
        }
        read_at_rest(after);
        memcpy(&run->steps[step], &shared->steps[step], sizeof run->steps[step]);
        for (int gpu = 0; gpu < shared->gpus; gpu++) {
            run->steps[step].read[gpu] = before[gpu] >= 0 && after[gpu] >= 0;
            run->steps[step].used[gpu] = after[gpu] - before[gpu];
        }
        if (shared->done != step + 1)
            break;
    }
    /* Processes that others started leave first, as those that are waited for do. */
    for (int who = MOST_ACTORS - 1; who > MAIN && !run->end[0]; who--) {
        shared->leave[who] = 1;
        for (int times = 0; shared->process[who] && !is_gone(shared->process[who]) && times < 5000; times++)
            nap(1000);
    }
    shared->leave[MAIN] = 1;
    for (long waited = 0; !left; waited++) {
        left = waitpid(pid, &status, run->end[0] ? 0 : WNOHANG) == pid;
        if (run->end[0] || waited == 200000)
            kill(pid, SIGKILL);
        nap(100);
    }
    /* What the case has left behind is this process's child now. */
    for (int times = 0; times < 5000; times++) {
        pid_t found = waitpid(-1, NULL, WNOHANG);
        if (found < 0)
            break;
        if (found == 0)
            nap(1000);
    }
    if (!run->end[0] && WIFSIGNALED(status))
        snprintf(run->end, sizeof run->end, "signal %d", WTERMSIG(status));
    else if (!run->end[0])
        snprintf(run->end, sizeof run->end, "%s%d", run->made == what->steps ? "" : "early ", WEXITSTATUS(status));
    return 1;
}

/* Questions about a case. */

static const struct step *at(const struct run *run, const char *label)
{
    for (int step = 0; step < run->made; step++)
        if (!strcmp(run->order->labels[step], label))
            return run->steps[step].returned ? &run->steps[step] : NULL;
    return NULL;
}

static int both(int one, int other)
{
    return one == 0 || other == 0 ? 0 : one < 0 || other < 0 ? -1 : 1;
}

static int either(int one, int other)
{
    return one > 0 || other > 0 ? 1 : one < 0 || other < 0 ? -1 : 0;
}

static int holds(int order_of_two, int order)
{
    switch (order) {
    case EQ: return order_of_two == 0;
    case NE: return order_of_two != 0;
    case GE: return order_of_two >= 0;
    case LE: return order_of_two <= 0;
    case GT: return order_of_two > 0;
    default: return order_of_two < 0;
    }
}

static int compare(long long one, long long other)
{
    return (one > other) - (one < other);
}

static int status_is(const struct run *run, const char *step, int library, long long code)
{
    const struct step *seen = at(run, step);
    return !seen || !seen->has_status ? -1 : seen->library == library && seen->status == code;
}

static const struct known *known(const struct run *run, const char *step, const char *name)
{
    const struct step *seen = at(run, step);
    for (int place = 0; seen && place < seen->value_count; place++)
        if (!strcmp(seen->values[place].name, name))
            return &seen->values[place];
    return NULL;
}

static int number_is(const struct run *run, const char *step, const char *name, int order_wanted, long long number)
{
    const struct known *seen = known(run, step, name);
    if (!seen)
        return -1;
    if (!seen->is_text)
        return holds(compare(seen->number, number), order_wanted);
    char *rest = NULL;
    long long read = strtoll(seen->text, &rest, 10);
    if (rest == seen->text || *rest)
        return order_wanted == EQ ? 0 : order_wanted == NE ? 1 : -1;
    return holds(compare(read, number), order_wanted);
}

static int text_is(const struct run *run, const char *step, const char *name, int order_wanted, const char *text)
{
    const struct known *seen = known(run, step, name);
    char wanted[128], number[32];
    if (!seen)
        return -1;
    name_gpu(wanted, sizeof wanted, text);
    snprintf(number, sizeof number, "%lld", seen->number);
    int differ = strcmp(seen->is_text ? seen->text : number, wanted) != 0;
    return order_wanted == EQ ? !differ : order_wanted == NE ? differ : differ ? -1 : holds(0, order_wanted);
}

static int value_is(const struct run *run, const char *step, const char *name, int order_wanted,
                    const char *other_step, const char *other_name)
{
    const struct known *other = known(run, other_step, other_name);
    if (!other)
        return -1;
    if (other->is_text)
        return text_is(run, step, name, order_wanted, other->text);
    return number_is(run, step, name, order_wanted, other->number);
}

/* The GPUs that a process sees, or those with an active context, as "gpu0,gpu1". */
static int list(const struct run *run, const char *step, int contexts, char *room, size_t size)
{
    const struct step *seen = at(run, step);
    room[0] = 0;
    if (!seen || !seen->probed)
        return 0;
    if (seen->probe_status == NOT_INITIALIZED)
        return contexts;
    if (seen->probe_status == NO_DEVICE)
        return !contexts;
    if (seen->probe_status != 0)
        return 0;
    for (int gpu = 0; gpu < (contexts ? MOST_GPUS : 1); gpu++) {
        for (int place = 0; place < seen->visible_count; place++) {
            char name[16];
            snprintf(name, sizeof name, "gpu%d", gpu);
            if (contexts ? seen->active[place] && !strcmp(seen->visible[place], name) : 1)
                snprintf(room + strlen(room), size - strlen(room), "%s%s", room[0] ? "," : "", seen->visible[place]);
        }
    }
    return 1;
}

static int list_is(const struct run *run, const char *step, int contexts, const char *gpus)
{
    char room[1024], all[1024] = "";
    if (!list(run, step, contexts, room, sizeof room))
        return -1;
    for (int gpu = 0; gpu < shared->gpus; gpu++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%sgpu%d", gpu ? "," : "", gpu);
    return !strcmp(room, !strcmp(gpus, "all") ? all : gpus);
}

static int visible_is(const struct run *run, const char *step, const char *gpus)
{
    const struct step *seen = at(run, step);
    /* A call that found no GPU has not initialised the driver, and says what the process sees. */
    if (seen && seen->has_status && seen->status == NO_DEVICE && seen->probe_status == NOT_INITIALIZED)
        return gpus[0] == 0;
    return list_is(run, step, 0, gpus);
}

static int contexts_are(const struct run *run, const char *step, const char *gpus)
{
    return list_is(run, step, 1, gpus);
}

static int current_is(const struct run *run, const char *step, const char *gpu)
{
    const struct step *seen = at(run, step);
    if (seen && seen->probed && seen->probe_status == NOT_INITIALIZED)
        return !strcmp(gpu, "none");
    if (!seen || !seen->probed || seen->probe_status != 0 || seen->current == -2)
        return -1;
    return !strcmp(gpu, seen->current == -1 ? "none" : seen->visible[seen->current]);
}

static int initialised_is(const struct run *run, const char *step, int yes)
{
    const struct step *seen = at(run, step);
    if (!seen || !seen->probed || (seen->probe_status != 0 && seen->probe_status != NOT_INITIALIZED))
        return -1;
    return (seen->probe_status == 0) == yes;
}

static int memory_is(const struct run *run, const char *step, int gpu, int classes)
{
    const struct step *seen = at(run, step);
    if (gpu >= shared->gpus || !seen || !seen->read[gpu] || context_cost[gpu] <= NOISE)
        return -1;
    long long used = seen->used[gpu], whole = context_cost[gpu];
    long long margin = whole / 4 > 64 << 20 ? whole / 4 : 64 << 20;
    if (used < -NOISE)
        return -1; /* another process gave memory back */
    int class = used <= NOISE ? NONE : used < whole / 2 ? TOUCH : used < whole + margin ? CONTEXT : ALLOCATION;
    return (class & classes) != 0;
}

static int used_is(const struct run *run, const char *step, int gpu, int order_wanted, long long bytes)
{
    const struct step *seen = at(run, step);
    if (gpu >= shared->gpus || !seen || !seen->read[gpu])
        return -1;
    return holds(compare(seen->used[gpu], bytes), order_wanted);
}

static int grown_is(const struct run *run, const char *step, int gpu, int order_wanted, long long bytes)
{
    const struct step *seen = at(run, step);
    if (gpu >= shared->gpus || !seen || !seen->read[gpu])
        return -1;
    long long before = seen == run->steps ? 0 : seen[-1].used[gpu];
    return holds(compare(seen->used[gpu] - before, bytes), order_wanted);
}

static int ended_by(const struct run *run, const char *how)
{
    return !strcmp(run->end, how);
}

/* The table. Names of errors come from the libraries, once everything is measured. */

static const char *status_name(const struct step *seen)
{
    static char room[32];
    const char *name = NULL;
#ifdef WITH_RUNTIME
    if (seen->library == RUNTIME)
        name = cudaGetErrorName((cudaError_t)seen->status);
#endif
    if (seen->library == DRIVER && cuGetErrorName((CUresult)seen->status, (void *)&name) != 0)
        name = NULL;
    if (seen->library == LIBC && seen->status == 0)
        name = "OK";
    if (seen->library == NVML && seen->status == 0)
        name = "NVML_SUCCESS";
    if (name)
        return name;
    snprintf(room, sizeof room, "%s %lld", seen->library == LIBC ? "errno" : "status", seen->status);
    return room;
}

static void cell(const struct run *run, int step, int column, char *room, size_t size)
{
    char part[1024] = "";
    room[0] = 0;
    if (step >= run->order->steps)
        return;
    const struct step *seen = &run->steps[step];
    if (column == 0) {
        snprintf(room, size, "%s", run->order->labels[step]);
    } else if (step >= run->made) {
        return;
    } else if (column == 1) {
        snprintf(part, sizeof part, "%s",
                 !seen->returned ? "(did not return)" : seen->has_status ? status_name(seen) : "");
        for (int place = 0; place < seen->value_count; place++) {
            const struct known *one = &seen->values[place];
            if (!one->is_text)
                snprintf(part + strlen(part), sizeof part - strlen(part), " %s=%lld", one->name, one->number);
            else if (strcmp(one->text, "bound"))
                snprintf(part + strlen(part), sizeof part - strlen(part), " %s=%s", one->name, one->text);
        }
        snprintf(room, size, "%.*s", 60, part[0] == ' ' ? part + 1 : part);
    } else if (column < 2 + shared->gpus) {
        if (seen->read[column - 2])
            snprintf(room, size, "%+.1f", (double)seen->used[column - 2] / (1 << 20));
        else
            snprintf(room, size, "?");
    } else {
        list(run, run->order->labels[step], 1, part, sizeof part);
        snprintf(room, size, "%.40s", part[0] ? part : "-");
    }
}

static void line(struct run *runs, int count, int step, const int *widths)
{
    int columns = 3 + shared->gpus;
    char room[1200];
    for (int place = 0; place < count; place++) {
        for (int column = 0; column < columns; column++) {
            if (step >= 0)
                cell(&runs[place], step, column, room, sizeof room);
            else if (column == 0)
                snprintf(room, sizeof room, "%s", runs[place].order->name);
            else if (column == 1)
                snprintf(room, sizeof room, "returned");
            else if (column < 2 + shared->gpus)
                snprintf(room, sizeof room, "gpu%d", column - 2);
            else
                snprintf(room, sizeof room, "contexts");
            int is_last = place == count - 1 && column == columns - 1;
            printf(column >= 2 && column < columns - 1 ? "%*s%s" : "%-*s%s", is_last ? 0 : widths[place * columns + column],
                   room, is_last ? "\n" : column == columns - 1 ? " | " : "  ");
        }
    }
}

static void table(struct run *runs, int count)
{
    int columns = 3 + shared->gpus, steps = 0, widths[2 * (MOST_GPUS + 3)] = {0};
    char room[1200];
    for (int place = 0; place < count; place++) {
        if (runs[place].order->steps > steps)
            steps = runs[place].order->steps;
        for (int column = 0; column < columns; column++) {
            int wide = column == 0 ? (int)strlen(runs[place].order->name) : column < columns - 1 && column > 1 ? 4 : 8;
            for (int step = 0; step < runs[place].order->steps; step++) {
                cell(&runs[place], step, column, room, sizeof room);
                if ((int)strlen(room) > wide)
                    wide = (int)strlen(room);
            }
            widths[place * columns + column] = wide;
        }
    }
    for (int step = -1; step < steps; step++)
        line(runs, count, step, widths);
    printf("\nMemory of each GPU in MiB, by NVML, since before the case.");
    if (MEASURES_CONTEXT && context_cost[0] > 0)
        printf(" A context costs %.1f MiB here.", (double)context_cost[0] / (1 << 20));
    printf("\n");
}

int main(int count, char **arguments)
{
    static struct run runs[CASES], context;
    if (count == 5 && !strcmp(arguments[1], "--make"))
        return make(arguments[2], atoi(arguments[3]), atoi(arguments[4]));
    unsigned int gpus = 0;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    shared_fd = memfd_create("reproducer", 0);
    if (shared_fd < 0 || ftruncate(shared_fd, sizeof *shared) != 0)
        return perror("shared memory"), 2;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, shared_fd, 0);
    if (shared == MAP_FAILED)
        return perror("shared memory"), 2;
    if (nvmlInit_v2() != 0 || nvmlDeviceGetCount_v2(&gpus) != 0 || gpus == 0)
        return fprintf(stderr, "NVML finds no GPU\n"), 2;
    shared->gpus = (int)gpus < MOST_GPUS ? (int)gpus : MOST_GPUS;
    for (int gpu = 0; gpu < shared->gpus; gpu++) {
        struct { char legacy[16]; unsigned int rest[5]; char id[32]; } pci = {{0}, {0}, {0}};
        if (nvmlDeviceGetHandleByIndex_v2((unsigned int)gpu, &device[gpu]) != 0 ||
            nvmlDeviceGetUUID(device[gpu], shared->uuid[gpu], sizeof shared->uuid[gpu]) != 0)
            return fprintf(stderr, "NVML does not tell GPU %d\n", gpu), 2;
        if (nvmlDeviceGetPciInfo_v3(device[gpu], (void *)&pci) == 0)
            memcpy(shared->pci[gpu], pci.id, sizeof pci.id);
    }
    if (shared->gpus < NEEDED_GPUS)
        return fprintf(stderr, "this takes %d GPUs, and there are %d\n", NEEDED_GPUS, shared->gpus), 2;
    for (int gpu = 0; MEASURES_CONTEXT && gpu < shared->gpus; gpu++)
        if (run_case(&cost, gpu, &context) && context.steps[0].status == 0)
            context_cost[gpu] = context.steps[0].used[gpu];
    printf("%s\n\n", QUESTION);
    int shows[CASES];
    for (int place = 0; place < CASES; place++) {
        printf("%s: %s\n", orders[place].name, orders[place].does);
        fflush(stdout);
        run_case(&orders[place], 0, &runs[place]);
        shows[place] = effect(&runs[place]);
    }
    printf("\n");
    table(runs, CASES);
    for (int place = 0; place < CASES; place++) {
        printf("%s: the effect %s%s%s%s\n", orders[place].name,
               shows[place] < 0 ? "cannot be told" : shows[place] ? "shows" : "does not show",
               strcmp(runs[place].end, "0") ? " (ended with " : "", strcmp(runs[place].end, "0") ? runs[place].end : "",
               strcmp(runs[place].end, "0") ? ")" : "");
    }
    int trap = shows[0], control = CASES > 1 ? shows[CASES - 1] : 0;
    int code = trap < 0 || control != 0 ? 2 : trap ? 0 : 1;
    printf("%s\n", code == 0 ? "reproduced (exit 0)"
                   : code == 1 ? "not reproduced (exit 1)"
                   : control > 0 ? "cannot tell: the control shows the effect too (exit 2)" : "cannot tell (exit 2)");
    return code;
}

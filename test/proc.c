/* Processes that end with the test, and ports for them. */
#include "test/harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STOP_MS = 20000 };

/* How a process was started, and whether it still runs. Freed when the test (or the program) ends. */
struct proc_record {
    pid_t pid; /* 0 once it was waited for */
    char **argv;
    char **env;
    char *log;
};

static char *copy(const char *text) {
    char *copied = strdup(text);
    if (!copied)
        abort();
    return copied;
}

static size_t list_length(const char *const list[]) {
    size_t n = 0;
    while (list && list[n])
        n++;
    return n;
}

/* True if the list has "NAME=…" of the same name as `variable`. */
static bool names(const char *const list[], const char *variable) {
    size_t length = strcspn(variable, "=") + 1;
    for (size_t i = 0; list && list[i]; i++)
        if (strncmp(list[i], variable, length) == 0)
            return true;
    return false;
}

/* `inherited` (may be NULL) less the SECKILL_ variables and what `own` names, then `own` (may be NULL). */
static char **copy_lists(const char *const inherited[], const char *const own[]) {
    char **out = calloc(list_length(inherited) + list_length(own) + 1, sizeof *out);
    if (!out)
        abort();
    size_t n = 0;
    for (size_t i = 0; inherited && inherited[i]; i++)
        if (strncmp(inherited[i], "SECKILL_", 8) != 0 && !names(own, inherited[i]))
            out[n++] = copy(inherited[i]);
    for (size_t i = 0; own && own[i]; i++)
        out[n++] = copy(own[i]);
    return out;
}

static void free_list(char **list) {
    for (size_t i = 0; list[i]; i++)
        free(list[i]);
    free(list);
}

/* The whole file, or its last `most` bytes; memory of the caller's. */
static char *read_log(const char *path, long most) {
    char *text = NULL;
    FILE *file = fopen(path, "re");
    if (!file)
        return copy("");
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    long from = size > most ? size - most : 0;
    text = calloc(1, (size_t)(size - from) + 1);
    if (!text)
        abort();
    fseek(file, from, SEEK_SET);
    size_t got = fread(text, 1, (size_t)(size - from), file);
    text[got] = '\0';
    fclose(file);
    return text;
}

static void release(void *arg) {
    struct proc_record *record = arg;
    if (record->pid > 0) {
        kill(record->pid, SIGKILL);
        waitpid(record->pid, NULL, 0);
    }
    if (harness_failed()) {
        char *tail = read_log(record->log, 2000);
        if (*tail)
            printf("     ---- the end of %s (%s)\n%s\n     ----\n", record->log, record->argv[0], tail);
        free(tail);
    }
    free_list(record->argv);
    free_list(record->env);
    free(record->log);
    free(record);
}

/* In the child, between fork and exec: only calls that are safe there. */
static void become(const struct proc_record *record, int log, int report, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGINT, SIG_DFL); /* a shell ignores it in what it runs in the background */
    int null = open("/dev/null", O_RDONLY);
    if (null >= 0 && dup2(null, 0) >= 0 && dup2(log, 1) >= 0 && dup2(log, 2) >= 0)
        execvpe(record->argv[0], record->argv, record->env);
    int error = errno;
    ssize_t told = write(report, &error, sizeof error);
    _exit(told < 0 ? 126 : 127);
}

/* `report` is closed by a successful exec; what is read from it is the errno of a failed one. */
static void start(struct proc *proc) {
    struct proc_record *record = proc->record;
    int report[2];
    int log = open(record->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0 || pipe2(report, O_CLOEXEC) != 0)
        FAIL("%s: %s", record->log, strerror(errno));
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0)
        become(record, log, report[1], parent);
    int error = pid < 0 ? errno : 0;
    close(log);
    close(report[1]);
    if (pid > 0 && read(report[0], &error, sizeof error) > 0)
        waitpid(pid, NULL, 0);
    close(report[0]);
    if (error)
        FAIL("cannot start %s: %s", record->argv[0], strerror(error));
    proc->pid = record->pid = pid;
}

void proc_spawn(struct proc *proc, const char *const argv[], const char *const env[], const char *log) {
    struct proc_record *record = calloc(1, sizeof *record);
    if (!record)
        abort();
    record->argv = copy_lists(NULL, argv);
    record->env = copy_lists((const char *const *)environ, env);
    record->log = copy(log);
    proc->record = record;
    proc->pid = 0;
    harness_defer(release, record);
    start(proc);
}

void proc_respawn(struct proc *proc) {
    CHECK(proc->pid == 0);
    start(proc);
}

static bool thread_is_stopped(const struct proc *proc, const char *thread) {
    char text[256] = "";
    FILE *stat = fopen(harness_format("/proc/%d/task/%s/stat", (int)proc->pid, thread), "re");
    if (!stat)
        return true; /* it has gone */
    const char *read = fgets(text, sizeof text, stat);
    fclose(stat);
    const char *at = read ? strrchr(text, ')') : NULL;
    return at && at[2] == 'T';
}

bool proc_stopped(const struct proc *proc) {
    bool stopped = true;
    DIR *threads = opendir(harness_format("/proc/%d/task", (int)proc->pid));
    if (!threads)
        FAIL("no process %d", (int)proc->pid);
    for (const struct dirent *entry; (entry = readdir(threads));)
        stopped = (entry->d_name[0] == '.' || thread_is_stopped(proc, entry->d_name)) && stopped;
    closedir(threads);
    return stopped;
}

static bool is_stopped(void *proc) {
    return proc_stopped(proc);
}

void proc_kill(struct proc *proc, int signal) {
    CHECK(proc->pid > 0);
    CHECK_INT(kill(proc->pid, signal), 0);
    if (signal == SIGSTOP)
        CHECK(harness_wait(is_stopped, proc, STOP_MS));
}

bool proc_wait(struct proc *proc, int timeout_ms, int *status) {
    CHECK(proc->pid > 0);
    int64_t deadline = harness_now_ms() + timeout_ms;
    while (waitpid(proc->pid, status, WNOHANG) != proc->pid) {
        if (harness_now_ms() >= deadline)
            return false;
        harness_pause_ms(1);
    }
    proc->pid = proc->record->pid = 0;
    return true;
}

bool proc_running(struct proc *proc) {
    siginfo_t info = {.si_pid = 0};
    return proc->pid > 0 && waitid(P_PID, (id_t)proc->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
}

char *proc_output(const struct proc *proc) {
    char *text = read_log(proc->record->log, 1L << 30);
    harness_defer(free, text);
    return text;
}

/* A port stays ours for as long as this program lives because a Unix socket of its name, in the abstract name
 * space, is bound: another test program's bind fails, and the kernel frees it however we end. The ports lie
 * below those that the kernel gives to outgoing connections, so none of those takes a port away while its
 * server is being restarted. */
static bool claim(int port) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "seckill-test-port-%d", port);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 ||
        bind(fd, (struct sockaddr *)&name, (socklen_t)(sizeof name.sun_family + 1 + (size_t)length)) != 0) {
        close(fd);
        return false;
    }
    return true; /* fd stays open on purpose */
}

static bool is_unused(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool unused = bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return unused;
}

int harness_free_port(void) {
    enum { FIRST = 12000, COUNT = 20000 };
    static int next;
    if (!next)
        next = (int)(getpid() * 37 % COUNT);
    for (int tries = 0; tries < COUNT; tries++) {
        int port = FIRST + next;
        next = (next + 1) % COUNT;
        if (is_unused(port) && claim(port))
            return port;
    }
    FAIL("no free port");
}

#include "base/servers/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

enum { STOP_MS = 20000, POLL_MIN_MS = 2, POLL_MAX_MS = 50 };

/* On the heap: whoever frees it may outlive the struct proc. */
struct proc_record {
    pid_t pid; /* 0 once its end was awaited */
    char **argv, **env;
    char *log;
};

const char *proc_failure(const char *format, ...) {
    static _Thread_local char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return text;
}

/* ---- how it is started ---- */

static void *proc_allocated(void *memory) {
    if (!memory)
        abort();
    return memory;
}

static size_t list_length(const char *const list[]) {
    size_t n = 0;
    while (list && list[n])
        n++;
    return n;
}

/* True if the list has "NAME=…" of the same name as `variable`. */
static bool list_names(const char *const list[], const char *variable) {
    size_t length = strcspn(variable, "=") + 1;
    for (size_t i = 0; list && list[i]; i++) {
        if (strncmp(list[i], variable, length) == 0)
            return true;
    }
    return false;
}

/* `inherited` without the SECKILL_ variables and without what `own` names, then `own`. Either may be NULL. */
static char **list_copy(const char *const inherited[], const char *const own[]) {
    char **out = proc_allocated(calloc(list_length(inherited) + list_length(own) + 1, sizeof *out));
    size_t n = 0;
    for (size_t i = 0; inherited && inherited[i]; i++) {
        if (strncmp(inherited[i], "SECKILL_", 8) != 0 && !list_names(own, inherited[i]))
            out[n++] = proc_allocated(strdup(inherited[i]));
    }
    for (size_t i = 0; own && own[i]; i++)
        out[n++] = proc_allocated(strdup(own[i]));
    return out;
}

static void list_free(char **list) {
    for (size_t i = 0; list[i]; i++)
        free(list[i]);
    free(list);
}

/* ---- starting ---- */

/* In the child, between fork and exec: only calls that are safe there. A failure is written to `report`,
 * which a successful exec closes. */
__attribute__((noreturn)) static void proc_become(const struct proc_record *record, int in, int out, int log,
                                                  int report, pid_t parent) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGINT, SIG_DFL); /* a shell ignores it in what it runs in the background */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent && dup2(in, 0) >= 0 &&
        dup2(out, 1) >= 0 && dup2(log, 2) >= 0)
        execvpe(record->argv[0], record->argv, record->env);
    int error = errno;
    ssize_t written = write(report, &error, sizeof error);
    _exit(written < 0 ? 126 : 127);
}

/* `in` and `out`: -1 for /dev/null and the log. */
static const char *proc_launch(struct proc *proc, int in, int out) {
    struct proc_record *record = proc->record;
    int report[2] = {-1, -1}, error = 0;
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int log = open(record->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    pid_t parent = getpid(), pid = -1;
    if (null >= 0 && log >= 0 && pipe2(report, O_CLOEXEC) == 0)
        pid = fork();
    if (pid == 0)
        proc_become(record, in >= 0 ? in : null, out >= 0 ? out : log, log, report[1], parent);
    if (pid < 0)
        error = errno;
    if (report[1] >= 0)
        close(report[1]);
    if (pid > 0 && read(report[0], &error, sizeof error) > 0)
        waitpid(pid, NULL, 0);
    if (report[0] >= 0)
        close(report[0]);
    if (log >= 0)
        close(log);
    if (null >= 0)
        close(null);
    if (error)
        return proc_failure("cannot start %s: %s", record->argv[0], strerror(error));
    proc->pid = record->pid = pid;
    return NULL;
}

const char *proc_start_piped(struct proc *proc, const char *const argv[], const char *const env[],
                             const char *log, int in, int out) {
    struct proc_record *record = proc_allocated(calloc(1, sizeof *record));
    record->argv = list_copy(NULL, argv);
    record->env = list_copy((const char *const *)environ, env);
    record->log = proc_allocated(strdup(log));
    *proc = (struct proc){.record = record};
    return proc_launch(proc, in, out);
}

const char *proc_start(struct proc *proc, const char *const argv[], const char *const env[],
                       const char *log) {
    return proc_start_piped(proc, argv, env, log, -1, -1);
}

const char *proc_restart(struct proc *proc) {
    if (proc->pid)
        return proc_failure("%s still runs", proc->record->argv[0]);
    return proc_launch(proc, -1, -1);
}

void proc_free(struct proc_record *record) {
    if (!record)
        return;
    if (record->pid) {
        kill(record->pid, SIGKILL);
        waitpid(record->pid, NULL, 0);
    }
    list_free(record->argv);
    list_free(record->env);
    free(record->log);
    free(record);
}

/* ---- waiting and ending ---- */

/* The pause grows with the time that has passed: a long wait leaves the processor to others, and ends at most
 * a sixteenth late. */
bool proc_poll(bool (*is_true)(void *arg), void *arg, int timeout_ms) {
    int64_t begin_ms = clock_now_ms();
    while (!is_true(arg)) {
        int64_t waited_ms = clock_now_ms() - begin_ms, pause_ms = waited_ms / 16;
        if (waited_ms >= timeout_ms)
            return false;
        pause_ms = pause_ms < POLL_MIN_MS ? POLL_MIN_MS : pause_ms > POLL_MAX_MS ? POLL_MAX_MS : pause_ms;
        usleep((useconds_t)pause_ms * 1000);
    }
    return true;
}

bool proc_wait(struct proc *proc, int timeout_ms, int *status) {
    int64_t deadline_ms = clock_now_ms() + timeout_ms;
    if (!proc->pid)
        return false;
    while (waitpid(proc->pid, status, WNOHANG) != proc->pid) {
        if (clock_now_ms() >= deadline_ms)
            return false;
        usleep(1000);
    }
    proc->pid = proc->record->pid = 0;
    return true;
}

/* What the kernel has to tell of the process (WEXITED or WSTOPPED): its pid; 0: nothing; -1: there is no such
 * process. It stays to be told. */
static pid_t proc_told(const struct proc *proc, int what) {
    siginfo_t info = {.si_pid = 0};
    bool known = proc->pid > 0 && waitid(P_PID, (id_t)proc->pid, &info, what | WNOHANG | WNOWAIT) == 0;
    return known ? info.si_pid : -1;
}

bool proc_running(const struct proc *proc) {
    return proc_told(proc, WEXITED) == 0;
}

/* A stop is told from when the last thread has stopped until the process is continued. */
bool proc_stopped(const struct proc *proc) {
    return proc_told(proc, WSTOPPED) > 0;
}

static bool proc_poll_stopped(void *proc) {
    return proc_stopped(proc);
}

const char *proc_signal(const struct proc *proc, int signal) {
    struct proc copy = *proc;
    if (!proc->pid)
        return "the process does not run";
    if (kill(proc->pid, signal) != 0)
        return proc_failure("%s: %s", proc->record->argv[0], strerror(errno));
    if (signal == SIGSTOP && !proc_poll(proc_poll_stopped, &copy, STOP_MS))
        return proc_failure("%s does not stop", proc->record->argv[0]);
    return NULL;
}

const char *proc_end(struct proc *proc, int signal, int timeout_ms) {
    int status;
    const char *error = proc_signal(proc, signal);
    if (error || proc_wait(proc, timeout_ms, &status))
        return error;
    return proc_failure("%s still runs", proc->record->argv[0]);
}

/* ---- its log ---- */

const char *proc_name(const struct proc_record *record) {
    return record->argv[0];
}

const char *proc_log(const struct proc_record *record) {
    return record->log;
}

char *proc_read_log(const struct proc_record *record, long most) {
    FILE *file = fopen(record->log, "re");
    if (!file)
        return proc_allocated(strdup(""));
    fseek(file, 0, SEEK_END);
    long size = ftell(file), from = size > most ? size - most : 0;
    char *text = proc_allocated(calloc(1, (size_t)(size - from) + 1));
    fseek(file, from, SEEK_SET);
    text[fread(text, 1, (size_t)(size - from), file)] = '\0';
    fclose(file);
    return text;
}

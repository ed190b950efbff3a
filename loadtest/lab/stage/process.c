#include "loadtest/lab/stage/process.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

static const long long stop_ns = 5000000000;

/* ---- starting ---- */

static void set_environment(const char *const env[]) {
    for (; env != NULL && *env != NULL; env++)
        putenv((char *)(uintptr_t)*env);
}

/* In the child. What goes wrong is told over `report`, which a successful exec closes. */
__attribute__((noreturn)) static void become(const char *const argv[], const char *const env[], int in,
                                             int out, int log, int report, pid_t parent) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent && dup2(in, 0) >= 0 &&
        dup2(out, 1) >= 0 && dup2(log, 2) >= 0) {
        set_environment(env);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
    }
    int error = errno;
    ssize_t told = write(report, &error, sizeof error);
    _exit(told < 0 ? 126 : 127);
}

bool process_start(struct process *process, const char *const argv[], const char *const env[],
                   const char *log, int in, int out) {
    int report[2] = {-1, -1}, error = 0;
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int file = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    pid_t parent = getpid(), pid = -1;
    if (null >= 0 && file >= 0 && pipe2(report, O_CLOEXEC) == 0)
        pid = fork();
    if (pid == 0)
        become(argv, env, in >= 0 ? in : null, out >= 0 ? out : file, file, report[1], parent);
    if (pid < 0)
        error = errno;
    if (report[1] >= 0)
        close(report[1]);
    if (pid > 0 && read(report[0], &error, sizeof error) > 0)
        waitpid(pid, NULL, 0);
    if (report[0] >= 0)
        close(report[0]);
    if (file >= 0)
        close(file);
    if (null >= 0)
        close(null);
    if (error == 0)
        process->pid = pid;
    errno = error;
    return error == 0;
}

/* ---- ending, and pausing ---- */

bool process_runs(struct process *process) {
    if (process->pid != 0 && waitpid(process->pid, NULL, WNOHANG) == process->pid)
        process->pid = 0;
    return process->pid != 0;
}

bool process_wait(struct process *process, long long deadline_ns, int *status) {
    while (process->pid != 0 && waitpid(process->pid, status, WNOHANG) != process->pid) {
        if (clock_now_ns() >= deadline_ns)
            return false;
        usleep(1000);
    }
    process->pid = 0;
    return true;
}

void process_kill(struct process *process) {
    if (process->pid == 0)
        return;
    kill(process->pid, SIGKILL);
    waitpid(process->pid, NULL, 0);
    process->pid = 0;
}

/* The state of a thread is the letter behind its name in parentheses. */
static bool thread_is_stopped(pid_t pid, const char *thread) {
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%.16s/stat", (int)pid, thread);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return true; /* it has gone */
    const char *line = fgets(text, sizeof text, file);
    fclose(file);
    const char *at = line != NULL ? strrchr(line, ')') : NULL;
    return at != NULL && at[1] == ' ' && at[2] == 'T';
}

static bool is_stopped(pid_t pid) {
    char path[64];
    bool stopped = true;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    if (threads == NULL)
        return false;
    for (const struct dirent *entry; (entry = readdir(threads)) != NULL;)
        stopped = (entry->d_name[0] == '.' || thread_is_stopped(pid, entry->d_name)) && stopped;
    closedir(threads);
    return stopped;
}

bool process_pause(const struct process *process) {
    long long deadline_ns = clock_now_ns() + stop_ns;
    if (process->pid == 0 || kill(process->pid, SIGSTOP) != 0)
        return false;
    while (!is_stopped(process->pid)) {
        if (clock_now_ns() >= deadline_ns)
            return false;
        usleep(500);
    }
    return true;
}

void process_resume(const struct process *process) {
    if (process->pid != 0)
        kill(process->pid, SIGCONT);
}

/* ---- ports ---- */

/* A port stays ours because a Unix socket of its name, in the abstract name space, is bound until this
 * process ends: that also keeps two labs apart. */
static bool claim(int port) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "seckill-lab-port-%d", port);
    socklen_t size = (socklen_t)(sizeof name.sun_family + 1 + (size_t)length);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&name, size) == 0)
        return true; /* `fd` stays open on purpose */
    if (fd >= 0)
        close(fd);
    return false;
}

static bool is_unused(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool unused = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    if (fd >= 0)
        close(fd);
    return unused;
}

/* They lie below the ports that the kernel gives to outgoing connections: none of those takes a port away
 * while its server is being restarted. */
int process_free_port(void) {
    enum { FIRST = 12000, COUNT = 20000 };
    static int next = -1;
    if (next < 0)
        next = (int)(getpid() * 37L % COUNT);
    for (int tries = 0; tries < COUNT; tries++) {
        int port = FIRST + next;
        next = (next + 1) % COUNT;
        if (is_unused(port) && claim(port))
            return port;
    }
    return 0;
}

#include "base/servers/local_servers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OPEN_FILES = 16, SWEEPS = 100, SWEEP_PAUSE_US = 20000 };
enum { PORT_FIRST = 12000, PORT_COUNT = 20000, LINE_MAX_SHOWN = 150, LOG_TAIL = 1000 };

/* ---- the directory of all logs and data ---- */

static int directory_remove_one(const char *path, const struct stat *stat, int type, struct FTW *at) {
    (void)stat;
    (void)type;
    (void)at;
    return remove(path) != 0 && errno != ENOENT;
}

void directory_remove(const char *path) {
    nftw(path, directory_remove_one, OPEN_FILES, FTW_DEPTH | FTW_PHYS);
}

bool directory_make(char path[DIRECTORY_SIZE], const char *prefix) {
    const char *above = getenv("TMPDIR");
    int length =
        snprintf(path, DIRECTORY_SIZE, "%s/%s-XXXXXX", above && above[0] == '/' ? above : "/tmp", prefix);
    if (length >= DIRECTORY_SIZE)
        return errno = ENAMETOOLONG, false;
    return mkdtemp(path) != NULL;
}

/* Blocks until the process that made the directory has ended: then nobody has the other end of the pipe. Its
 * servers are being killed at that moment and may still write, so several sweeps are made. In a session of
 * its own the sweeper gets no Ctrl-C. */
__attribute__((noreturn)) static void directory_sweep(const char *path, int ended) {
    char nothing;
    setsid();
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    while (read(ended, &nothing, 1) < 0 && errno == EINTR) {
    }
    for (int i = 0; i < SWEEPS && access(path, F_OK) == 0; i++) {
        directory_remove(path);
        usleep(SWEEP_PAUSE_US);
    }
    _exit(0);
}

bool directory_open(struct directory *directory, const char *prefix) {
    int ends[2];
    if (!directory_make(directory->path, prefix))
        return false;
    if (pipe(ends) == 0) {
        directory->sweeper = fork();
        if (directory->sweeper == 0) {
            close(ends[1]);
            directory_sweep(directory->path, ends[0]);
        }
        close(ends[0]);
        directory->alive = ends[1];
        if (directory->sweeper > 0)
            return true;
        close(ends[1]);
    }
    directory_remove(directory->path);
    return false;
}

void directory_close(struct directory *directory) {
    directory_remove(directory->path);
    close(directory->alive);
    waitpid(directory->sweeper, NULL, 0);
}

/* ---- ports ---- */

/* A port stays ours for as long as this program lives because a Unix socket of its name is bound in the
 * abstract name space: the bind of another program fails, and the kernel frees the name however we end. */
static bool port_claim(int port) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int length = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "seckill-port-%d", port);
    socklen_t size = (socklen_t)(sizeof name.sun_family + 1 + (size_t)length);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&name, size) == 0)
        return true; /* `fd` stays open on purpose */
    if (fd >= 0)
        close(fd);
    return false;
}

static bool port_is_unused(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool unused = bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return unused;
}

/* The ports lie below those that the kernel gives to outgoing connections, so none of these takes a port away
 * while its server is being restarted. */
int local_server_free_port(void) {
    static int next = -1;
    if (next < 0)
        next = (int)(getpid() * 37L % PORT_COUNT);
    for (int tries = 0; tries < PORT_COUNT; tries++) {
        int port = PORT_FIRST + next;
        next = (next + 1) % PORT_COUNT;
        if (port_is_unused(port) && port_claim(port))
            return port;
    }
    return 0;
}

/* ---- starting ---- */

const char *local_server_place(int *port, char path[LOCAL_SERVER_DIR_SIZE], const char *dir) {
    *port = local_server_free_port();
    snprintf(path, LOCAL_SERVER_DIR_SIZE, "%s", dir);
    if (!*port)
        return "there is no free port";
    return mkdir(path, 0700) == 0 ? NULL : proc_failure("%s: %s", path, strerror(errno));
}

const char *local_server_add_options(const char *argv[], size_t size, const char *const more[]) {
    size_t n = 0;
    while (argv[n])
        n++;
    for (; *more; more++) {
        if (n == size - 1)
            return proc_failure("%s has too many options", argv[0]);
        argv[n++] = *more;
    }
    argv[n] = NULL;
    return NULL;
}

const char *local_server_add_words(const char *argv[], size_t size, char *words) {
    const char *error = NULL;
    for (char *rest, *word = strtok_r(words, " ", &rest); word && !error; word = strtok_r(NULL, " ", &rest))
        error = local_server_add_options(argv, size, (const char *[]){word, NULL});
    return error;
}

const char *local_server_spawn(struct proc *proc, const char *const argv[], const char *const env[],
                               const char *dir) {
    char log[LOCAL_SERVER_DIR_SIZE + 8];
    snprintf(log, sizeof log, "%s.log", dir);
    return proc_start(proc, argv, env, log);
}

/* ---- asking ---- */

static int local_server_connect(const char *host, int port, int timeout_ms) {
    const struct timeval patience = {timeout_ms / 1000, timeout_ms % 1000 * 1000L};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (inet_pton(AF_INET, host, &address.sin_addr) == 1 &&
        connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

bool local_server_ask(const char *host, int port, const char *request, char *answer, size_t size,
                      int timeout_ms) {
    size_t length = 0;
    int fd = local_server_connect(host, port, timeout_ms);
    answer[0] = '\0';
    if (fd < 0)
        return false;
    ssize_t got = send(fd, request, strlen(request), MSG_NOSIGNAL);
    while (got > 0 && length < size - 1 && (got = recv(fd, answer + length, size - 1 - length, 0)) > 0)
        length += (size_t)got;
    close(fd);
    answer[length] = '\0';
    return length > 0;
}

/* ---- waiting ---- */

struct awaited {
    const struct proc *proc;
    bool (*is_ready)(void *arg);
    void *arg;
    bool ready;
};

static bool is_ready_or_dead(void *arg) {
    struct awaited *awaited = arg;
    awaited->ready = awaited->is_ready(awaited->arg);
    return awaited->ready || !proc_running(awaited->proc);
}

/* The last line that is not empty. */
static const char *last_line(char *text) {
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == '\n')
        text[--length] = '\0';
    const char *end = strrchr(text, '\n');
    return end ? end + 1 : text;
}

/* Another server may be what answers on the port of a process that has ended. */
const char *local_server_await(const struct proc *proc, bool (*is_ready)(void *arg), void *arg,
                               int timeout_ms) {
    struct awaited awaited = {.proc = proc, .is_ready = is_ready, .arg = arg};
    proc_poll(is_ready_or_dead, &awaited, timeout_ms);
    bool runs = proc_running(proc);
    if (awaited.ready && runs)
        return NULL;
    char *log = proc_read_log(proc->record, LOG_TAIL);
    const char *error = proc_failure("%s %s; its log ends with: %.*s", proc_name(proc->record),
                                     runs ? "is not ready" : "has ended", LINE_MAX_SHOWN, last_line(log));
    free(log);
    return error;
}

const char *local_server_wipe(const struct proc *proc, const char *dir) {
    if (proc_running(proc))
        return proc_failure("%s still runs", proc_name(proc->record));
    directory_remove(dir);
    return mkdir(dir, 0700) == 0 ? NULL : proc_failure("%s: %s", dir, strerror(errno));
}

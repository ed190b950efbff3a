#include "base/servers/directory.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OPEN_FILES = 16, SWEEPS = 100, SWEEP_PAUSE_US = 20000 };

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
    if (pipe(ends) != 0)
        goto no_pipe;
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
no_pipe:
    directory_remove(directory->path);
    return false;
}

void directory_close(struct directory *directory) {
    directory_remove(directory->path);
    close(directory->alive);
    waitpid(directory->sweeper, NULL, 0);
}

#include "loadtest/lab/stage/directory.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OPEN_FILES = 16 };

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *at) {
    (void)stat;
    (void)type;
    (void)at;
    return remove(path) != 0 && errno != ENOENT;
}

void directory_remove(const char *path) {
    nftw(path, remove_one, OPEN_FILES, FTW_DEPTH | FTW_PHYS);
}

/* Waits for the end of the run: then nobody has the other end of the pipe any more. The servers have been
 * killed by then or are about to be, and may still write: so it tries for a while. In a session of its own no
 * Ctrl-C reaches it. */
static void sweep(const char *path, int ended) {
    char nothing;
    setsid();
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    while (read(ended, &nothing, 1) < 0 && errno == EINTR) {
    }
    for (int tries = 0; tries < 100 && access(path, F_OK) == 0; tries++) {
        directory_remove(path);
        usleep(20000);
    }
    _exit(0);
}

bool directory_open(struct directory *directory) {
    const char *above = getenv("TMPDIR");
    int ends[2];
    int length = snprintf(directory->path, sizeof directory->path, "%s/seckill-lab-XXXXXX",
                          above != NULL && above[0] == '/' ? above : "/tmp");
    if (length >= (int)sizeof directory->path)
        return errno = ENAMETOOLONG, false;
    if (mkdtemp(directory->path) == NULL)
        return false;
    if (pipe(ends) != 0)
        goto no_pipe;
    directory->sweeper = fork();
    if (directory->sweeper == 0) {
        close(ends[1]);
        sweep(directory->path, ends[0]);
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

static void copy_file(const char *from, const char *to) {
    char buffer[4096];
    FILE *in = fopen(from, "re"), *out = in != NULL ? fopen(to, "we") : NULL;
    for (size_t length; out != NULL && (length = fread(buffer, 1, sizeof buffer, in)) > 0;)
        fwrite(buffer, 1, length, out);
    if (out != NULL)
        fclose(out);
    if (in != NULL)
        fclose(in);
}

void directory_copy_logs(const char *from, const char *to) {
    DIR *directory = opendir(from);
    mkdir(to, 0777);
    for (const struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;) {
        const char *end = strrchr(entry->d_name, '.');
        char source[PATH_MAX], copy[PATH_MAX];
        if (end == NULL || strcmp(end, ".log") != 0)
            continue;
        snprintf(source, sizeof source, "%s/%s", from, entry->d_name);
        snprintf(copy, sizeof copy, "%s/%s", to, entry->d_name);
        copy_file(source, copy);
    }
    if (directory != NULL)
        closedir(directory);
}

/* The directory of a run: logs and data of its servers. It is removed however the run ends. */
#ifndef LOADTEST_LAB_STAGE_DIRECTORY_H
#define LOADTEST_LAB_STAGE_DIRECTORY_H

#include <stdbool.h>
#include <sys/types.h>

enum { DIRECTORY_SIZE = 200 };

struct directory {
    char path[DIRECTORY_SIZE];
    pid_t sweeper;
    int alive; /* a pipe that ends with this process */
};

/* Makes one below $TMPDIR or /tmp. A child of its own, the sweeper, removes it when this process has ended,
 * also by SIGKILL; so call it before threads are started. False: `errno` says why. */
bool directory_open(struct directory *directory);

/* Removes it and all that is in it. */
void directory_close(struct directory *directory);

/* Copies the logs in one directory, NAME.log, to another, which is made. What cannot be copied is left. */
void directory_copy_logs(const char *from, const char *to);

/* Removes a directory and all that is in it. */
void directory_remove(const char *path);

#endif

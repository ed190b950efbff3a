/* The directory in which servers keep their logs and data. Its name is chosen below $TMPDIR or /tmp. */
#ifndef BASE_SERVERS_DIRECTORY_H
#define BASE_SERVERS_DIRECTORY_H

#include <stdbool.h>
#include <sys/types.h>

enum { DIRECTORY_SIZE = 200 };

struct directory {
    char path[DIRECTORY_SIZE];
    pid_t sweeper; /* a child process, which removes the directory */
    int alive;     /* a pipe that ends with this process */
};

/* Makes a directory PREFIX-XXXXXX. False: `errno` says why. */
bool directory_make(char path[DIRECTORY_SIZE], const char *prefix);

/* Makes a directory that is removed however this process ends, also by SIGKILL. A child of its own waits for
 * that end: call before threads are started. False: `errno` says why. */
bool directory_open(struct directory *directory, const char *prefix);
/* Removes it now, with all that is in it. */
void directory_close(struct directory *directory);

/* Removes a directory with all that is in it. */
void directory_remove(const char *path);

#endif

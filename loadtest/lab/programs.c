#include "loadtest/lab/programs.h"

#include <string.h>
#include <unistd.h>

bool programs_find(char path[PROGRAMS_PATH_SIZE]) {
    ssize_t length = readlink("/proc/self/exe", path, PROGRAMS_PATH_SIZE - 1);
    if (length <= 0)
        return false;
    path[length] = '\0';
    *strrchr(path, '/') = '\0'; /* it is an absolute path */
    return true;
}

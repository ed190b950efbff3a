/* Where this program is, and with it the others that the lab starts. */
#ifndef LOADTEST_LAB_PROGRAMS_H
#define LOADTEST_LAB_PROGRAMS_H

#include <stdbool.h>

enum { PROGRAMS_PATH_SIZE = 512 };

/* False: `errno` says why. */
bool programs_find(char path[PROGRAMS_PATH_SIZE]);

#endif

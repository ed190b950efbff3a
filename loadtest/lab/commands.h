/* The commands of seckill-lab. Each takes its name and what follows it, ends with NULL, and returns the exit
 * status. */
#ifndef LOADTEST_LAB_COMMANDS_H
#define LOADTEST_LAB_COMMANDS_H

#include <stdio.h>

int list_command(char *const *argv);   /* the scenarios */
int run_command(char *const *argv);    /* plays scenarios, judges them, and writes the reports */
int render_command(char *const *argv); /* draws recorded events */
int serve_command(char *const *argv);  /* serves the page until a signal ends the process */

/* Prints what failed and why, and returns the exit status `code`. */
static inline int command_fail(int code, const char *what, const char *why) {
    fprintf(stderr, "seckill-lab: %s: %s\n", what, why);
    return code;
}

#endif

/* seckilld with the settings that a test gives: what it says of bad ones, and where it serves with good ones.
 */
#ifndef SERVICE_TEST_PROGRAM_H
#define SERVICE_TEST_PROGRAM_H

#include "test/harness.h"

enum { PROGRAM_TIME_MS = 10000 };

/* Writes a file of settings, and returns its name. */
const char *program_write_file(const char *text);

/* Starts it. `given` has flags, and variables for the environment (NAME=VALUE in capitals), with blanks
 * between them. */
void program_spawn(struct proc *proc, const char *given);
/* Runs it to its end, which must have this exit status. Returns what it said. */
const char *program_run(const char *given, int want);
/* Status 2, and one line that says where it is wrong, what was given, and what would be right. */
void program_check_refused(const char *given, const char *where, const char *right);

struct program {
    struct proc proc;
    int port;
};

/* Whether it answers, and has said all it says at the start; or has ended. For harness_wait(). */
bool program_is_live(void *program);
/* Starts it, and waits until it serves the port. */
void program_start(struct program *program, int port, const char *given);
/* Ends it by SIGTERM. */
void program_stop(struct program *program);
/* Waits for its end, which must be a good one. */
void program_check_end(struct proc *proc);

/* What to give besides the variables, if no store is wanted. */
const char *program_storeless(int port, const char *variables);

/* The status of an audit with this admin token. */
int program_audit(int port, const char *token);

/* How often the text has the piece. */
int program_count(const char *text, const char *piece);

#endif

/* A process that this program starts: signalled, awaited, started again. The kernel kills it when this
 * program dies.
 *
 * Errors in base/servers: a function that can fail returns NULL when it did not, or a text that says why. The
 * text lies in memory of the calling thread and is valid until that thread's next failure. Nothing here logs
 * or exits. */
#ifndef BASE_SERVERS_PROC_H
#define BASE_SERVERS_PROC_H

#include <stdbool.h>
#include <sys/types.h>

struct proc {
    pid_t pid;                  /* 0: it does not run, or its end was awaited */
    struct proc_record *record; /* how it was started; NULL: never */
};

/* Starts argv[0], found by PATH, with `env` ("NAME=value", NULL at the end; may be NULL) added to this
 * program's environment without its SECKILL_ variables. Standard input is /dev/null; output and errors are
 * appended to the file `log`. Copies its arguments. The kernel kills the process when the thread that started
 * it ends: call from the main thread. `record` is set also where the start failed. */
const char *proc_start(struct proc *proc, const char *const argv[], const char *const env[], const char *log);
/* The same with standard input from the descriptor `in` and output to `out`. */
const char *proc_start_piped(struct proc *proc, const char *const argv[], const char *const env[],
                             const char *log, int in, int out);
/* Starts the same program once more. It must have ended, and must not have been started by
 * proc_start_piped(). */
const char *proc_restart(struct proc *proc);
/* Kills it if it runs, and frees the record. Accepts NULL. */
void proc_free(struct proc_record *record);

/* Sends a signal. After SIGSTOP it returns once all threads of the process have stopped. */
const char *proc_signal(const struct proc *proc, int signal);
/* Sends a signal that ends it, and blocks for up to `timeout_ms` until it has ended. */
const char *proc_end(struct proc *proc, int signal, int timeout_ms);
/* Blocks until it has ended, and sets its wait status. False: it still ran after `timeout_ms`, or was not
 * running. */
bool proc_wait(struct proc *proc, int timeout_ms, int *status);
/* True while it runs or is stopped. Leaves the wait status to proc_wait(). */
bool proc_running(const struct proc *proc);
/* True if all its threads are stopped. */
bool proc_stopped(const struct proc *proc);

/* argv[0]. */
const char *proc_name(const struct proc_record *record);
/* The path of its log. */
const char *proc_log(const struct proc_record *record);
/* The last `most` bytes of its log, which the caller frees; never NULL. */
char *proc_read_log(const struct proc_record *record, long most);

/* Calls is_true(arg) again and again, after pauses of 2 to 50 ms, until it returns true; false after
 * `timeout_ms`. */
bool proc_poll(bool (*is_true)(void *arg), void *arg, int timeout_ms);

/* Formats the reason of a failure; returns it. */
const char *proc_failure(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

/* Processes of a play: started, stopped, ended. None outlives the lab. */
#ifndef LOADTEST_LAB_STAGE_PROCESS_H
#define LOADTEST_LAB_STAGE_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

struct process {
    pid_t pid; /* 0: it does not run */
};

/* Starts argv[0], found by PATH, with `env` ("NAME=value", NULL at the end; may be NULL) added to the
 * environment. Its standard input is `in`, or /dev/null where that is -1; its output is `out`, or the file
 * `log` where that is -1; its errors go to `log`. The kernel kills it when the thread that started it ends:
 * call it from the main thread. False: `errno` says why. */
bool process_start(struct process *process, const char *const argv[], const char *const env[],
                   const char *log, int in, int out);

/* False: it has ended (and was waited for), or was never started. */
bool process_runs(struct process *process);

/* SIGSTOP, and waits until all its threads have stopped. False: it has ended, or did not stop in time. */
bool process_pause(const struct process *process);
void process_resume(const struct process *process);

/* SIGKILL, and waits for its end. */
void process_kill(struct process *process);

/* Waits for its end, and takes its wait status. False: it still runs at `deadline_ns`, monotonic. */
bool process_wait(struct process *process, long long deadline_ns, int *status);

/* A TCP port of 127.0.0.1 that is free, and stays so for other calls; 0: there is none. */
int process_free_port(void);

#endif

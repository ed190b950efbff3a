/* A client of the lab, in a process of its own: it uses a lock through liblock, sells from a stock, does one
 * command after the other, and tells the lab each thing that happens. */
#ifndef LOADTEST_LAB_STAGE_CLIENT_PROCESS_H
#define LOADTEST_LAB_STAGE_CLIENT_PROCESS_H

/* argv: "client", NAME, URL of the lock, port of the stock's Redis, "fence" or "-", session in hexadecimal
 * digits, file of the shared memory. Returns the exit status. */
int client_process_main(char *const *argv);

#endif

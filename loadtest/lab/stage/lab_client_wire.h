/* The protocol between the lab and its client processes: commands to a client and messages from it, over
 * pipes. Both sides are the same program, so structs are sent as they are; each is shorter than PIPE_BUF, so
 * it arrives in one piece. */
#ifndef LOADTEST_LAB_STAGE_LAB_CLIENT_WIRE_H
#define LOADTEST_LAB_STAGE_LAB_CLIENT_WIRE_H

#include <stdatomic.h>

#include "loadtest/lab/events/event.h"

enum { WIRE_NAME_SIZE = 64, WIRE_TEXT_SIZE = 200 };

enum wire_verb {
    WIRE_ACQUIRE, /* waits for `name` for up to `timeout_ms`; 0: one try */
    WIRE_RELEASE,
    WIRE_READ,  /* reads the stock of `name`; the next computed write starts from it */
    WIRE_WRITE, /* sells `quantity` of `name` in this `way` */
    WIRE_SHOP,  /* up to `count` times: acquire, read, work for `work_ms`, write, release; until sold out */
    WIRE_GATE,  /* stops when the lock next comes to the point `text` */
    WIRE_GO,    /* goes on from there */
    WIRE_CLOCK, /* the lock's clock shows `timeout_ms` and stands still until it has been acquired once */
};

/* How a sale changes the stock. */
enum stock_way {
    STOCK_COMPUTED, /* what is left was computed from what was read before: it overwrites */
    STOCK_DECIDED,  /* the store decides and subtracts, in one script */
};

struct wire_command {
    enum wire_verb verb;
    enum stock_way way;
    char name[WIRE_NAME_SIZE];
    char text[WIRE_TEXT_SIZE]; /* a point; or the sale's idempotency key, "": none */
    int64_t timeout_ms, quantity, count, work_ms;
};

enum wire_message_type { WIRE_EVENT, WIRE_AT_GATE, WIRE_DONE };

struct wire_message {
    enum wire_message_type type;
    struct event event; /* its texts are not valid in the other process: they are `name` and `text` */
    char name[WIRE_NAME_SIZE];
    char text[WIRE_TEXT_SIZE];
};

/* Memory that all processes of a play share. */
struct wire_shared {
    _Atomic uint64_t next_op;
};

/* Maps it; the first call makes the file. NULL: `errno` says why not. */
struct wire_shared *wire_map_shared(const char *file);

/* The descriptors of the client process. */
enum { WIRE_COMMANDS_FD = 0, WIRE_MESSAGES_FD = 1 };

/* The program of the client process. argv: "client", NAME, URL of the lock, port of the stock's Redis,
 * "fence" or "-", session in hexadecimal digits, file of the shared memory. Returns the exit status. */
int client_process_main(char *const *argv);

#endif

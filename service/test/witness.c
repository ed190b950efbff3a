#include "service/test/witness.h"

#include <ctype.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct witness {
    const struct redis_server *store;
    struct web_conn conn;
    pthread_t thread;
    bool ended;
    atomic_bool stop;
    uint64_t newest; /* the rest is read when the thread has ended */
    int tokens, epochs;
    char wrong[128];
};

/* What is heard last. */
#define WITNESS_END "\"ECHO\" \"the end\""

static void hear_token(struct witness *witness, uint64_t epoch) {
    witness->tokens++;
    if (epoch < witness->newest && !witness->wrong[0])
        snprintf(witness->wrong, sizeof witness->wrong, "a grant of epoch %llu after one of %llu",
                 (unsigned long long)epoch, (unsigned long long)witness->newest);
    if (epoch > witness->newest) {
        witness->newest = epoch;
        witness->epochs++;
    }
}

/* A token is an argument of twenty digits, a colon, and twenty digits. */
static void hear_line(struct witness *witness, const char *line) {
    if (strstr(line, WITNESS_END))
        atomic_store(&witness->stop, true);
    for (const char *at = line; (at = strchr(at, '"')); at++) {
        if (strspn(at + 1, "0123456789") == 20 && at[21] == ':' && strspn(at + 22, "0123456789") == 20 &&
            at[42] == '"')
            hear_token(witness, strtoull(at + 1, NULL, 10));
    }
}

static void *hear(void *arg) {
    struct witness *witness = arg;
    static char line[65536];
    size_t length = 0;
    while (!atomic_load(&witness->stop)) {
        char bytes[16384];
        ssize_t got = recv(witness->conn.fd, bytes, sizeof bytes, 0);
        if (got <= 0)
            break;
        for (ssize_t i = 0; i < got; i++) {
            if (bytes[i] == '\n') {
                line[length] = '\0';
                hear_line(witness, line);
                length = 0;
            } else if (length < sizeof line - 1) {
                line[length++] = bytes[i];
            }
        }
    }
    return NULL;
}

static void stop(void *arg) {
    struct witness *witness = arg;
    if (witness->ended)
        return;
    witness->ended = true;
    redis_command(witness->store, "ECHO", "the end", NULL);
    pthread_join(witness->thread, NULL);
    web_close(&witness->conn);
}

struct witness *witness_call(const struct redis_server *store) {
    struct witness *witness = harness_alloc(sizeof *witness);
    witness->store = store;
    CHECK(web_open(&witness->conn, store->port));
    web_send_text(&witness->conn, "MONITOR\r\n");
    CHECK_INT(pthread_create(&witness->thread, NULL, hear, witness), 0);
    harness_defer(stop, witness);
    return witness;
}

int witness_end(struct witness *witness, int epochs) {
    stop(witness);
    CHECK_STR(witness->wrong, "");
    CHECK_INT(witness->epochs, epochs);
    return witness->tokens;
}

/* The Redis protocol (RESP), as far as locks need it: commands out, answers in. Not for users. */
#ifndef LOCK_REDIS_PROTOCOL_H
#define LOCK_REDIS_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum redis_answer_type {
    REDIS_ANSWER_NIL,
    REDIS_ANSWER_INTEGER,
    REDIS_ANSWER_TEXT,
    REDIS_ANSWER_LIST, /* no command of the library gets one; it is not kept */
    REDIS_ANSWER_ERROR
};

enum { REDIS_ANSWER_TEXT_SIZE = 160 };

struct redis_answer {
    enum redis_answer_type type;
    int64_t integer;                   /* INTEGER */
    char text[REDIS_ANSWER_TEXT_SIZE]; /* TEXT and ERROR, cut off if longer */
};

struct redisReply;
void redis_answer_read(struct redis_answer *answer, const struct redisReply *reply);

/* The server is a replica, which cannot write. */
bool redis_answer_is_replica(const struct redis_answer *answer);
/* The server does not have a script: its text must be sent. */
bool redis_answer_is_no_script(const struct redis_answer *answer);

/* Commands to be written; all 0 at first. `bytes` is freed by free(). */
struct redis_output {
    char *bytes;
    size_t length, size;
};

/* Returns the command's length; 0: out of memory. */
size_t redis_output_append(struct redis_output *output, int argc, const char *const argv[]);

#endif

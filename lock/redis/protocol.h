/* The answers of Redis, as far as locks need them. Not for users. */
#ifndef LOCK_REDIS_PROTOCOL_H
#define LOCK_REDIS_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/redis/redirect.h"

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

/* What an error means (redirect.h); REDIS_REFUSED for all other answers. */
enum redis_meaning redis_answer_meaning(const struct redis_answer *answer);

#endif

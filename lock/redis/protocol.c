#include "lock/redis/protocol.h"

#include <hiredis/hiredis.h>
#include <stdio.h>

void redis_answer_read(struct redis_answer *answer, const struct redisReply *reply) {
    static const enum redis_answer_type types[] = {
        [REDIS_REPLY_STRING] = REDIS_ANSWER_TEXT,     [REDIS_REPLY_STATUS] = REDIS_ANSWER_TEXT,
        [REDIS_REPLY_INTEGER] = REDIS_ANSWER_INTEGER, [REDIS_REPLY_ERROR] = REDIS_ANSWER_ERROR,
        [REDIS_REPLY_ARRAY] = REDIS_ANSWER_LIST,      [REDIS_REPLY_NIL] = REDIS_ANSWER_NIL,
    };
    bool is_known = (size_t)reply->type < sizeof types / sizeof *types;
    answer->type = is_known ? types[reply->type] : REDIS_ANSWER_NIL;
    answer->integer = reply->integer;
    answer->text[0] = '\0';
    if (reply->str)
        snprintf(answer->text, sizeof answer->text, "%s", reply->str);
}

enum redis_meaning redis_answer_meaning(const struct redis_answer *answer) {
    return answer->type == REDIS_ANSWER_ERROR ? redis_error_read(answer->text, "", NULL) : REDIS_REFUSED;
}

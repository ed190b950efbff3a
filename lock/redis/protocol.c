#include "lock/redis/protocol.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_SIZE = 32 }; /* a mark, digits, and two line ends */

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

/* Before Redis 7.0 an error inside a script is part of a longer text. */
bool redis_answer_is_replica(const struct redis_answer *answer) {
    return answer->type == REDIS_ANSWER_ERROR &&
           (strstr(answer->text, "READONLY ") || strncmp(answer->text, "MASTERDOWN", 10) == 0);
}

bool redis_answer_is_no_script(const struct redis_answer *answer) {
    return answer->type == REDIS_ANSWER_ERROR && strncmp(answer->text, "NOSCRIPT", 8) == 0;
}

/* Writes the mark, a number, and a line end. */
static char *put_number(char *at, char mark, size_t number) {
    char digits[NUMBER_SIZE];
    int count = 0;
    do {
        digits[count++] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    *at++ = mark;
    while (count)
        *at++ = digits[--count];
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

/* A command is an array of bulk strings. hiredis would format it with printf and a copy, which cost more than
 * everything else that is done for a call here. */
size_t redis_output_append(struct redis_output *output, int argc, const char *const argv[]) {
    size_t most = NUMBER_SIZE;
    for (int i = 0; i < argc; i++)
        most += NUMBER_SIZE + strlen(argv[i]);
    if (output->length + most > output->size) {
        char *bytes = realloc(output->bytes, 2 * (output->length + most));
        if (!bytes)
            return 0;
        output->bytes = bytes;
        output->size = 2 * (output->length + most);
    }
    char *begin = output->bytes + output->length, *at = put_number(begin, '*', (size_t)argc);
    for (int i = 0; i < argc; i++) {
        size_t length = strlen(argv[i]);
        at = put_number(at, '$', length);
        memcpy(at, argv[i], length);
        at += length;
        *at++ = '\r';
        *at++ = '\n';
    }
    output->length += (size_t)(at - begin);
    return (size_t)(at - begin);
}

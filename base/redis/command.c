#include "base/redis/command.h"

#include <stdlib.h>
#include <string.h>

enum { NUMBER_SIZE = 32 }; /* a mark, digits, and two line ends */

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

size_t redis_command_size(int argc, const char *const argv[]) {
    size_t size = NUMBER_SIZE;
    for (int i = 0; i < argc; i++)
        size += NUMBER_SIZE + strlen(argv[i]);
    return size;
}

size_t redis_command_begin(char *out, int argc) {
    return (size_t)(put_number(out, '*', (size_t)argc) - out);
}

/* hiredis would format it with printf() and a copy, which costs more than all else that is done for a call.
 */
size_t redis_command_add(char *out, int count, const char *const argv[]) {
    char *at = out;
    for (int i = 0; i < count; i++) {
        size_t length = strlen(argv[i]);
        at = put_number(at, '$', length);
        memcpy(at, argv[i], length);
        at += length;
        *at++ = '\r';
        *at++ = '\n';
    }
    return (size_t)(at - out);
}

size_t redis_command_write(char *out, int argc, const char *const argv[]) {
    size_t begun = redis_command_begin(out, argc);
    return begun + redis_command_add(out + begun, argc, argv);
}

size_t redis_output_append(struct redis_output *output, int argc, const char *const argv[]) {
    size_t most = output->length + redis_command_size(argc, argv);
    if (most > output->size) {
        char *bytes = realloc(output->bytes, 2 * most);
        if (!bytes)
            return 0;
        output->bytes = bytes;
        output->size = 2 * most;
    }
    size_t length = redis_command_write(output->bytes + output->length, argc, argv);
    output->length += length;
    return length;
}

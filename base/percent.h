/* Texts within URLs. */
#ifndef BASE_PERCENT_H
#define BASE_PERCENT_H

#include <stdbool.h>
#include <stddef.h>

/* Copies `length` bytes and resolves %XX. False where it does not fit, makes no sense, or has a zero byte in
 * it. */
bool percent_decode(char *out, size_t out_size, const char *in, size_t length);

#endif

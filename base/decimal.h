/* Decimal digits without printf(), for the path of each purchase. */
#ifndef BASE_DECIMAL_H
#define BASE_DECIMAL_H

#include <stdint.h>

enum { DECIMAL_SIZE = 21 }; /* of the longest number, with its NUL */

/* Writes the digits of `number` and a NUL; returns the address of the NUL, as stpcpy() does. Writes in place:
 * bytes that were written one by one and then copied as a block would stall the copy. */
static inline char *decimal_append(char *at, uint64_t number) {
    int digits = 1;
    for (uint64_t rest = number; rest >= 10; rest /= 10)
        digits++;
    char *end = at + digits;
    *end = '\0';
    for (char *digit = end; digit > at; number /= 10)
        *--digit = (char)('0' + number % 10);
    return end;
}

#endif

#include "base/decimal.h"

/* In place: a copy of bytes that were just written one by one would wait for them. */
char *decimal_append(char *at, uint64_t number) {
    int digits = 1;
    for (uint64_t rest = number; rest >= 10; rest /= 10)
        digits++;
    char *end = at + digits;
    *end = '\0';
    for (char *digit = end; digit > at; number /= 10)
        *--digit = (char)('0' + number % 10);
    return end;
}

#include "base/decimal.h"

#include <string.h>

char *decimal_append(char *at, uint64_t number) {
    char digits[DECIMAL_SIZE];
    char *first = digits + sizeof digits - 1;
    *first = '\0';
    do
        *--first = (char)('0' + number % 10);
    while (number /= 10);
    return stpcpy(at, first);
}

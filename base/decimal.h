/* Numbers as digits without printf(), for the way of each purchase. */
#ifndef BASE_DECIMAL_H
#define BASE_DECIMAL_H

#include <stdint.h>

enum { DECIMAL_SIZE = 21 };

/* Writes the digits of `number` and a NUL; returns where the NUL is, as stpcpy() does. */
char *decimal_append(char *at, uint64_t number);

#endif

/* Not for users. */
#ifndef LOCK_CORE_HASH_H
#define LOCK_CORE_HASH_H

#include <stdint.h>

/* FNV-1a */
static inline uint32_t lock_hash_text(const char *text) {
    uint32_t hash = 2166136261U;
    for (const char *c = text; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619U;
    return hash;
}

#endif

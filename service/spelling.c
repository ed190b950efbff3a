#include "service/spelling.h"

#include <string.h>

/* Computes the table of distances between all prefixes row by row, and keeps three rows. */
size_t spelling_distance(const char *typed, const char *name) {
    size_t rows[3][SPELLING_MAX + 1] = {{0}}, length = strlen(name);
    if (length > SPELLING_MAX)
        return SPELLING_MAX;
    for (size_t j = 0; j <= length; j++)
        rows[1][j] = j;
    size_t *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t i = 1; typed[i - 1]; i++) {
        row[0] = i;
        for (size_t j = 1; j <= length; j++) {
            size_t least = last[j - 1] + (typed[i - 1] != name[j - 1]);
            if (last[j] + 1 < least)
                least = last[j] + 1;
            if (row[j - 1] + 1 < least)
                least = row[j - 1] + 1;
            if (i > 1 && j > 1 && typed[i - 1] == name[j - 2] && typed[i - 2] == name[j - 1] &&
                before[j - 2] + 1 < least)
                least = before[j - 2] + 1;
            row[j] = least;
        }
        size_t *spare = before;
        before = last;
        last = row;
        row = spare;
    }
    return last[length];
}

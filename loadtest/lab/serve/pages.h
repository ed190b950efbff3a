/* The files of the page, which the program carries with it. */
#ifndef LOADTEST_LAB_SERVE_PAGES_H
#define LOADTEST_LAB_SERVE_PAGES_H

#include <stddef.h>

struct page {
    const char *path, *type, *text;
    size_t length;
};

/* NULL: there is none at this path. */
const struct page *pages_find(const char *path);

#endif

/* A lab, and a browser that shows its page, for tests: one of each, which end with the test. In a script of
 * these functions $('x') is document.querySelector('x'). */
#ifndef LOADTEST_LAB_TEST_LAB_PAGE_H
#define LOADTEST_LAB_TEST_LAB_PAGE_H

#include "loadtest/lab/test/lab_site.h"

extern struct lab_site page_site;
extern struct browser page_browser;

/* Starts both, and opens that address of the lab, "" or "#/sale" for instance. */
void page_open(const char *path);
void page_click(const char *selector);
void page_type(const char *keys);
/* Runs statements. */
void page_run(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Waits until the expression is true. */
void page_wait(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Waits until an element has this in its data. */
void page_wait_data(const char *selector, const char *name, const char *value);
/* A number that an element has in its data. */
long page_data(const char *selector, const char *name);

/* Begins a sale of 500 units, for a second, in the view of sales. */
void page_sell(void);
/* Drops a file on the page. */
void page_drop(const char *name, const char *text);

/* The console has nothing, but what the browser itself says of a server that is away; and the page has asked
 * no other host. */
void page_check_quiet(bool was_away);

#endif

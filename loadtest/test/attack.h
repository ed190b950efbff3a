/* Runs seckill-load and reads its report. */
#ifndef LOADTEST_TEST_ATTACK_H
#define LOADTEST_TEST_ATTACK_H

#include "loadtest/test/seller.h"
#include "test/harness.h"

enum { STOCK = 100, TIME_MS = 60000 };

struct attack_result {
    int code;
    const char *text; /* standard output and error */
    const char *json; /* "": none */
};

/* Starts seckill-load with the words of `line`; its JSON goes to a file, unless the line says otherwise. */
void attack_start(struct proc *proc, const char *line);
/* Waits for the end of the last one started. */
struct attack_result attack_finish(struct proc *proc);
struct attack_result attack_run(const char *line);
/* --url for each of these services. */
const char *attack_urls(const struct seckilld services[], int count);
/* Puts an item on sale: its terms as JSON. */
void attack_put(const struct seckilld *service, const char *item, const char *terms);
/* A sale of all the stock in 500 purchases, with the options of `more`. */
struct attack_result attack_sale(const struct seller *seller, const char *more);

void attack_check_code(const struct attack_result *outcome, int code);
/* The first number of that name in the JSON, and the one in its verdict. */
long long attack_number_of(const struct attack_result *outcome, const char *name);
long long attack_verdict_of(const struct attack_result *outcome, const char *name);

/* The content of a file, up to 64 KiB; "" if it cannot be read. */
const char *attack_read_file(const char *path);

#endif

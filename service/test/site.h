/* An HTTP server in a thread of this program, that answers when it is told to: GET or POST /N is answered
 * after N milliseconds with the request's body and its X-Id header in front; /-N at once, after the thread
 * has stood still for so long. */
#ifndef SERVICE_TEST_SITE_H
#define SERVICE_TEST_SITE_H

#include <stdatomic.h>
#include <stdbool.h>

struct site;

struct site_metrics {
    atomic_int requests, pending, connections, answered;
};

/* Ends with the test, which fails if it does not end. */
struct site *site_start(int connections_max, int idle_ms);
int site_port(const struct site *site);
/* Written by its thread. */
const struct site_metrics *site_metrics(const struct site *site);
/* Begins to drain. */
void site_drain(struct site *site);
/* Waits until it has as many connections, and as many requests without an answer. */
void site_wait(struct site *site, int connections, int pending);

#endif

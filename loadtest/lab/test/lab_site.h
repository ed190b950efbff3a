/* A lab that serves its page, for tests. */
#ifndef LOADTEST_LAB_TEST_LAB_SITE_H
#define LOADTEST_LAB_TEST_LAB_SITE_H

#include "test/harness.h"

struct lab_site {
    struct proc proc;
    int port;
    char *directory; /* its TMPDIR */
    const char *token;
};

/* Starts seckill-lab serve on a free port, and reads its token. */
void lab_site_start(struct lab_site *site);
/* The same port, once it has ended. */
void lab_site_restart(struct lab_site *site);

/* A request with the lab's own Host, and these headers. Returns the status. */
int lab_site_call(const struct lab_site *site, const char *method, const char *path, const char *headers,
                  const char *body, struct web_response *response);
/* A POST as the page sends it. Returns the status. `response` may be NULL. */
int lab_site_post(const struct lab_site *site, const char *path, const char *body,
                  struct web_response *response);
/* "http://127.0.0.1:PORT/" and this. */
const char *lab_site_url(const struct lab_site *site, const char *path);
/* The text of a member of a JSON answer. */
const char *lab_site_text(const struct web_response *response, const char *member);
/* An error says what is wrong, and what to do. */
void lab_site_check_problem(const struct web_response *response);
/* The text of a file. */
const char *lab_site_file(const char *path);
/* Begins a run and returns its name. */
const char *lab_site_begin(const struct lab_site *site, const char *order);
/* Waits until a run has ended. */
void lab_site_wait(const struct lab_site *site, const char *run);

/* For harness_wait(): what a lab with this TMPDIR has started or made, and has not ended or removed. No
 * process works in the directory, and it is empty. */
bool leftovers_none(void *directory);
/* A play goes on: a server and two clients run in it. */
bool leftovers_play(void *directory);

#endif

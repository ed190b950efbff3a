/* What a lab has started or made, and has not ended or removed. */
#ifndef LOADTEST_LAB_TEST_LEFTOVERS_H
#define LOADTEST_LAB_TEST_LEFTOVERS_H

#include <stdbool.h>

/* For harness_wait(); `directory`: the lab's TMPDIR. No process works in it, and it is empty. */
bool leftovers_none(void *directory);
/* A play goes on: a server and two clients run in it. */
bool leftovers_play(void *directory);

#endif

/* seckill-lab render: draws recorded events. */
#ifndef LOADTEST_LAB_RENDER_H
#define LOADTEST_LAB_RENDER_H

/* `argv`: the command and what follows it. Returns the exit status: 0, 2 (bad usage, or no file of events),
 * 3 (a file could not be written). */
int render_main(char *const *argv);

#endif

/* seckill-lab run. */
#ifndef LOADTEST_LAB_RUN_H
#define LOADTEST_LAB_RUN_H

/* argv: "run", and its flags and names. Returns the exit status. */
int run_main(char *const *argv);

#endif

/* seckill-lab serve. */
#ifndef LOADTEST_LAB_SERVE_SERVE_H
#define LOADTEST_LAB_SERVE_SERVE_H

/* argv: "serve", and its flags. Returns the exit status. */
int serve_main(char *const *argv);

#endif

/* seckill-lab list. */
#ifndef LOADTEST_LAB_LIST_H
#define LOADTEST_LAB_LIST_H

/* argv: "list", and its flags. Returns the exit status. */
int list_main(char *const *argv);

#endif

/* Baskets and transfers: those that buyers and the admin ask for, and those that somebody left unfinished. */
#ifndef SERVICE_API_HANDLE_BASKETS_H
#define SERVICE_API_HANDLE_BASKETS_H

struct background;

enum { TRANSACTIONS_RECOVERING = 16 };

/* Looks for transactions that were left unfinished and held baskets that are due, and has them finished, no
 * more than TRANSACTIONS_RECOVERING at a time. To be called about four times a second, on the back office's
 * thread. */
void transactions_recover(struct background *background);

#endif

/* Baskets and transfers: those that buyers and the admin ask for, and those that somebody left unfinished. */
#ifndef SERVICE_API_HANDLE_BASKETS_H
#define SERVICE_API_HANDLE_BASKETS_H

struct back;

enum { DEALS_RECOVERING = 16 };

/* Looks for deals that were left unfinished and held baskets that are due, and has them finished, no more
 * than DEALS_RECOVERING at a time. To be called about four times a second, on the back office's thread. */
void deals_recover(struct back *back);

#endif

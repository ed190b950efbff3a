/* Transactions that a process left unfinished, and held baskets that are due: each is finished by what the
 * journal says. */
#ifndef SERVICE_BACKGROUND_RECOVERY_H
#define SERVICE_BACKGROUND_RECOVERY_H

struct background;

enum { RECOVERY_MAX = 16 };

/* Claims what there is, no more than RECOVERY_MAX at a time, and finishes it. To be called about four times a
 * second, on the background thread. */
void recovery_tick(struct background *background);

#endif

/* none: no lock at all. Everybody is let in at once; what is sold under it is oversold. For comparison. */
#include "lock/core/backend.h"

const struct lock_backend lock_none = {
    .scheme = "none",
    .variant = "",
    .flaw = "locks nothing",
    .teaches = true,
};

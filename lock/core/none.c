/* none: no lock at all, for comparison. Every caller is granted at once; what is sold under it is oversold.
 */
#include "lock/core/backend.h"

const struct lock_backend lock_none = {
    .scheme = "none",
    .variant = "",
    .flaw = "locks nothing",
    .is_lesson = true,
};

/* local: a lock within this process: the line that all backends share (line.c), with nothing behind it. Fair,
 * and worth nothing to another process. */
#include "lock/core/backend.h"

const struct lock_backend lock_local = {
    .scheme = "local",
    .variant = "",
    .flaw = "another process does not know of it",
    .caps = LOCK_IS_FAIR | LOCK_CAN_WAKE | LOCK_IS_SAFE,
    .lines_up = true,
};

/* The locks without a store. local: a lock within this process: the local queue (local_queue.c) alone. Fair,
 * and useless between processes. none: no lock at all, for comparison. Every caller is granted at once; what
 * is sold under it is oversold. */
#include "lock/core/backend.h"

const struct lock_backend lock_local = {
    .scheme = "local",
    .variant = "",
    .flaw = "another process does not know of it",
    .caps = LOCK_IS_FAIR | LOCK_CAN_WAKE | LOCK_IS_SAFE,
    .queues_locally = true,
};

const struct lock_backend lock_none = {
    .scheme = "none",
    .variant = "",
    .flaw = "locks nothing",
    .is_lesson = true,
};

/* local: a lock within this process: the local queue (local_queue.c) without a store. Fair, and useless
 * between processes. */
#include "lock/core/backend.h"

const struct lock_backend lock_local = {
    .scheme = "local",
    .variant = "",
    .flaw = "another process does not know of it",
    .caps = LOCK_IS_FAIR | LOCK_CAN_WAKE | LOCK_IS_SAFE,
    .queues_locally = true,
};

/* The script that settles holds: confirm, cancel, expire. */
#ifndef INVENTORY_PURCHASES_SETTLE_H
#define INVENTORY_PURCHASES_SETTLE_H

#include "inventory/store/script.h"

extern const struct script settle_script;

#endif

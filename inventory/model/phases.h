/* The phases of a transaction, and how each goes on. Recovery goes by the same table. */
#ifndef INVENTORY_MODEL_PHASES_H
#define INVENTORY_MODEL_PHASES_H

#include "inventory/inventory.h"

/* Where a transaction is, as the journal has it. */
enum phase {
    PHASE_NONE, /* it is not in the journal */
    PHASE_INTENT,
    PHASE_ABORTING,
    PHASE_HELD,
    PHASE_CONFIRMING,
    PHASE_CANCELLING,
    PHASE_EXPIRING,
    PHASE_CONFIRMED,
    PHASE_CANCELLED,
    PHASE_EXPIRED,
    PHASES
};

/* What is written to the items of a transaction in a phase (transaction_lines.c). */
enum line_write {
    WRITE_NOTHING,
    WRITE_DEBIT,
    WRITE_ABORT,
    WRITE_CONFIRM,
    WRITE_CANCEL,
    WRITE_EXPIRE,
    WRITE_SELL /* take, and no more to come: of transaction_naive.c */
};

/* All phases, and how each goes on. This is also what recovery does. */
struct phase_row {
    const char *name;        /* in the journal */
    bool at_rest;            /* nothing is left to do */
    enum line_write write;   /* to be written to the items, and then */
    enum phase next;         /* comes this */
    enum inventory_state is; /* what a basket in it is to its buyer; UNDONE: it is none */
};
extern const struct phase_row phases[PHASES];

#endif

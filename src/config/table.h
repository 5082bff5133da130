/* The option table as it is written down, for rows.c alone: others ask wisp_option_row and the like. */
#ifndef WISP_CONFIG_TABLE_H
#define WISP_CONFIG_TABLE_H

#include "config/options.h"

enum { WISP_MOST_SPECIAL = 64 };

extern const wisp_option wisp_option_table[N_OPTS];
/* What a command means by a key, where that differs from what the others mean. */
extern const wisp_option wisp_special_options[];
extern const size_t wisp_n_special;

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* Of Xen, as far as the model has it. */
#include "../../xen.h"

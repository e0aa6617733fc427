# SPDX-License-Identifier: GPL-2.0-only
"""CPU seconds that SimSo takes for the periodic tasks of crates/simulator/benches/hosts.rs: 8 CPUs,
32 tasks, 10 s simulated, earliest deadline first with each task on one CPU, as under sedf."""

import time

from simso.configuration import Configuration
from simso.core import Model

PERIODS_MS = [5, 8, 10, 20, 25, 40, 50, 100]

configuration = Configuration()
configuration.cycles_per_ms = 1_000_000
configuration.duration = 10_000 * configuration.cycles_per_ms
for index in range(32):
    period = PERIODS_MS[index % len(PERIODS_MS)]
    configuration.add_task(
        name=f"task-{index}", identifier=index, period=period, activation_date=0,
        wcet=period / 5, deadline=period, abort_on_miss=False)
for cpu in range(8):
    configuration.add_processor(name=f"cpu-{cpu}", identifier=cpu)
configuration.scheduler_info.clas = "simso.schedulers.P_EDF"
configuration.check_all()

start = time.process_time()
model = Model(configuration)
model.run_model()
spent = time.process_time() - start
jobs = sum(len(task.jobs) for task in model.results.tasks.values())
print(f"{spent:.6f} s for {jobs} jobs")

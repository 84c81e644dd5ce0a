// The step as the machine runs it: the same rule as simtool's simulator, held equal to it to the ns by a test.
// The host runs the ops in order. An op launches device work and, where it blocks, waits for it; each executor takes
// its work in launch order, once the work's inputs are there. All times in ns.

// Settle what no size changes: what each op launches, what that work reads, and what the host waits for.
function compileStep(kind, keys, setting) {
  const { host, device } = setting.costs[kind];
  const givers = new Map(); // datum -> the work that gives it
  return keys.map(key => {
    const op = MODEL.ops[key], cost = host[key];
    const needed = op.needs.filter(datum => givers.has(datum)).map(datum => givers.get(datum));
    const works = [];
    for (const work of op.works) {
      const executor = setting.executors[work.lane];
      const after = [...needed, ...works].filter(other => other.executor !== executor);
      works.push({ ...work, executor, after, offset: cost.launches[work.name], ...device[work.name] });
    }
    if (works.length) for (const datum of op.gives) givers.set(datum, works.at(-1));
    const early = works.slice(0, op.early), late = works.slice(op.early);
    const awaited = early.length ? early.slice(-1) : needed;
    return { ...op, key, lane: "host", ...cost, works, early, late, awaited };
  });
}

const newMachine = () => ({ now: 0, waited: 0, executors: {} });

// Run one step; the times are left on the ops and their works. price(cost, ns of what ran just before, signed?) -> ns.
function runStep(ops, machine, price) {
  let now = machine.now;
  const launch = (work, busy) => {
    const executor = machine.executors[work.executor] ??= { start: 0, end: 0, ran: false };
    work.ready = now + Math.max(0, busy + price(work.offset, 0, true));
    const behind = price(work.queue, executor.end - executor.start);
    const inputs = work.after.reduce((latest, other) => Math.max(latest, other.end), executor.end);
    work.start = Math.max(work.ready, inputs + behind);
    work.end = work.start + price(work.duration, executor.ran ? work.start - executor.start : 0);
    Object.assign(executor, { start: work.start, end: work.end, ran: true });
  };
  for (const op of ops) {
    const busy = price(op.pre, machine.waited);
    op.start = now;
    for (const work of op.early) launch(work, busy);
    now += busy;
    if (op.blocks) {
      const done = op.awaited.reduce((latest, work) => Math.max(latest, work.end), 0);
      op.waitStart = now;
      op.waitEnd = now = Math.max(now, done + price(op.wake, 0));
      machine.waited = op.waitEnd - op.waitStart;
      const after = price(op.post, 0);
      for (const work of op.late) launch(work, after);
      now += after;
    }
    op.end = now;
  }
  const start = ops[0].start;
  machine.now = now + price(machine.gap, 0);
  return { start, end: now };
}
